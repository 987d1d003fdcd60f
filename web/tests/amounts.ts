/** Shares as people read them. */

import { equal } from "node:assert/strict";
import { test } from "node:test";

import { percent } from "../src/ui/amounts";

test("a share is none or all only if it is", () => {
  equal(percent(0), "0 %");
  equal(percent(0.004), "<1 %");
  equal(percent(0.256), "26 %");
  equal(percent(0.994), "99 %");
  equal(percent(0.9999), ">99 %");
  equal(percent(1), "100 %");
  equal(percent(1.25), "125 %");
  equal(percent(Number.NaN), "–");
});
