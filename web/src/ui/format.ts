/** Numbers and times as people read them. */

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});
const day = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

export function count(value: number): string {
  return whole.format(value);
}

/** `3 pods`, `1 pod`. */
export function plural(value: number, word: string, words = `${word}s`): string {
  return `${count(value)} ${value === 1 ? word : words}`;
}

/** A span of time in its two largest units: `2 h 5 min`, `12 s`, `0.4 s`. */
export function span(seconds: number): string {
  if (seconds < 0) return "0 s";
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 99.5) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min${minutes < 10 ? ` ${Math.floor(seconds % 60)} s` : ""}`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h${hours < 10 ? ` ${minutes % 60} min` : ""}`;
  return `${Math.floor(hours / 24)} d`;
}

/** Milliseconds with as many digits as matter. */
export function millis(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value < 0.005) return "0 ms";
  if (value >= 1000) return `${(value / 1000).toFixed(value >= 10_000 ? 0 : 1)} s`;
  return `${value >= 100 ? Math.round(value) : value.toFixed(value >= 10 ? 1 : 2)} ms`;
}

/** A rate per second. */
export function rate(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  return value >= 100 ? count(value) : value.toFixed(value >= 10 ? 0 : 1);
}

/** Seconds since the epoch as a time of today, or with the date. */
export function moment(seconds: number): string {
  const when = new Date(seconds * 1000);
  const today = new Date().toDateString() === when.toDateString();
  return today ? clock.format(when) : day.format(when);
}
