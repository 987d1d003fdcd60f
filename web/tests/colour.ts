/** Colours are mixed alike however they are written. */

import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import { blended, channels, translucent } from "../src/ui/colour";

test("a colour may be written short", () => {
  deepEqual(channels("#fff"), [255, 255, 255]);
  deepEqual(channels("#ffffff"), [255, 255, 255]);
  deepEqual(channels("#0072b2"), [0, 114, 178]);
});

test("areas of a stack have the colour of their line, thinner", () => {
  equal(blended("#0072b2", "#ffffff", 0.5), "rgb(128 185 217)");
  equal(blended("#0072b2", "#fff", 0.5), blended("#0072b2", "#ffffff", 0.5));
});

test("what is behind shows through", () => {
  equal(translucent("#07b", 0.13), "rgb(0 119 187 / 13%)");
});
