/** Colours of `tokens.css` made thinner. Whoever builds the page may write them shorter: `#fff`. */

/** Red, green and blue of `#rgb` or `#rrggbb`. */
export function channels(hex: string): number[] {
  const digits = hex.replace("#", "");
  const each =
    digits.length === 3 ? [...digits].map((digit) => digit + digit) : digits.match(/../g);
  return (each ?? []).slice(0, 3).map((pair) => Number.parseInt(pair, 16));
}

/** How light a colour is to the eye, from 0 to 1, as WCAG 2 has it. */
export function luminance(channels: number[]): number {
  const [red = 0, green = 0, blue = 0] = channels.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
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
