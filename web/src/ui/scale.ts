/** A scale from little to much that people with any kind of colour vision read alike: cividis. */

type Stop = readonly [number, number, number];

const DARK: readonly Stop[] = [
  [0, 34, 78],
  [18, 53, 112],
  [59, 73, 108],
  [87, 93, 109],
  [112, 113, 115],
  [138, 134, 120],
  [165, 156, 116],
  [195, 179, 105],
  [225, 204, 85],
  [254, 232, 56],
];

/** On a light page little is pale, so that much is what the eye finds. */
const LIGHT: readonly Stop[] = [
  [246, 243, 229],
  [238, 229, 190],
  [224, 209, 146],
  [195, 179, 105],
  [165, 156, 116],
  [138, 134, 120],
  [112, 113, 115],
  [87, 93, 109],
  [59, 73, 108],
  [18, 53, 112],
  [0, 34, 78],
];

/** The colour of a share from 0 to 1. */
export function heat(share: number, dark: boolean): string {
  const stops = dark ? DARK : LIGHT;
  const at = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const low = stops[Math.floor(at)] ?? [0, 0, 0];
  const high = stops[Math.ceil(at)] ?? low;
  const part = at - Math.floor(at);
  const mixed = low.map((value, channel) =>
    Math.round(value * (1 - part) + (high[channel] ?? 0) * part),
  );
  return `rgb(${mixed.join(" ")})`;
}

/** Whether text on this share of the scale is to be light. */
export function isDeep(share: number, dark: boolean): boolean {
  return dark ? share < 0.45 : share > 0.55;
}
