/** Spans of time as people read them. */

import { equal } from "node:assert/strict";
import { test } from "node:test";

import { span } from "../src/ui/format";

test("a span is not rounded up to a number that it would not be written as", () => {
  equal(span(9.94), "9.9 s");
  equal(span(9.96), "10 s");
  equal(span(99.4), "99 s");
  equal(span(99.6), "1 min 39 s");
  equal(span(100), "1 min 40 s");
});
