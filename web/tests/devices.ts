/** Devices on the map of nodes. */

import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import { deviceGrid } from "../src/nodes/painting";
import { isDevices, resourceWords } from "../src/ui/amounts";

test("the devices of a node fill a square", () => {
  deepEqual(deviceGrid(0), { columns: 1, rows: 1 });
  deepEqual(deviceGrid(1), { columns: 1, rows: 1 });
  deepEqual(deviceGrid(2), { columns: 2, rows: 1 });
  deepEqual(deviceGrid(8), { columns: 3, rows: 3 });
  deepEqual(deviceGrid(64), { columns: 8, rows: 8 });
  for (let count = 1; count <= 64; count += 1) {
    const { columns, rows } = deviceGrid(count);
    equal(columns * rows >= count && columns * (rows - 1) < count, true);
  }
});

test("devices are named after their driver, and no resource is taken for devices", () => {
  equal(resourceWords("device:gpu.example.com"), "gpu.example.com devices");
  equal(resourceWords("example.com/device"), "example.com/device");
  equal(isDevices("example.com/device"), false);
});
