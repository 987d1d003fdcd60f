/** What is written on a square of the map can be read on every colour of the scale. */

import { ok } from "node:assert/strict";
import { test } from "node:test";

import { channels, luminance } from "../src/ui/colour";
import { heatOf, textOn } from "../src/ui/scale";

const LEAST = 4.5;

for (const dark of [false, true]) {
  test(`text is legible on every share, ${dark ? "dark" : "light"}`, () => {
    for (let percent = 0; percent <= 100; percent += 1) {
      const share = percent / 100;
      const levels = [heatOf(share, dark), channels(textOn(share, dark))].map(luminance);
      const contrast = (Math.max(...levels) + 0.05) / (Math.min(...levels) + 0.05);
      ok(contrast >= LEAST, `${percent} %: ${contrast.toFixed(2)}`);
    }
  });
}
