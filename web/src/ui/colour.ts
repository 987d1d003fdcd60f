/** Colours of `tokens.css` made thinner. Whoever builds the page may write them shorter: `#fff`. */

/** Red, green and blue of `#rgb` or `#rrggbb`. */
export function channels(hex: string): number[] {
  const digits = hex.replace("#", "");
  const each =
    digits.length === 3 ? [...digits].map((digit) => digit + digit) : digits.match(/../g);
  return (each ?? []).slice(0, 3).map((pair) => Number.parseInt(pair, 16));
}

/** A colour laid thinly over another, without transparency: areas of a stack cover each other. */
export function blended(colour: string, under: string, share: number): string {
  const below = channels(under);
  const mixed = channels(colour).map((value, at) =>
    Math.round(value * share + (below[at] ?? 0) * (1 - share)),
  );
  return `rgb(${mixed.join(" ")})`;
}

/** A colour through which one sees what is behind it. */
export function translucent(colour: string, share: number): string {
  return `rgb(${channels(colour).join(" ")} / ${Math.round(100 * share)}%)`;
}
