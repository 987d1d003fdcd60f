/** A scale from little to much that people with any kind of colour vision read alike: cividis. */

import { luminance } from "./colour";

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

/** The red, green and blue of a share from 0 to 1. */
export function heatOf(share: number, dark: boolean): number[] {
  const stops = dark ? DARK : LIGHT;
  const at = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const low = stops[Math.floor(at)] ?? [0, 0, 0];
  const high = stops[Math.ceil(at)] ?? low;
  const part = at - Math.floor(at);
  return low.map((value, channel) => Math.round(value * (1 - part) + (high[channel] ?? 0) * part));
}

/** The colour of a share from 0 to 1. */
export function heat(share: number, dark: boolean): string {
  return `rgb(${heatOf(share, dark).join(" ")})`;
}

/** White and black are equally legible on a colour of this luminance. */
const MIDDLE = 0.179;

/** White or black: what is legible on this share of the scale. */
export function textOn(share: number, dark: boolean): "#ffffff" | "#000000" {
  return luminance(heatOf(share, dark)) < MIDDLE ? "#ffffff" : "#000000";
}
