/** Amounts of resources as people read them; the API has whole numbers, CPU in thousandths. */

import { count } from "./format";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

function isBytes(resource: string): boolean {
  return (
    resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-")
  );
}

export function bytes(value: number): string {
  let unit = 0;
  let left = value;
  while (left >= 1024 && unit < UNITS.length - 1) {
    left /= 1024;
    unit += 1;
  }
  const digits = left >= 100 || Number.isInteger(left) ? 0 : left >= 10 ? 1 : 2;
  return `${left.toFixed(digits)} ${UNITS[unit]}`;
}

export function amount(resource: string, value: number): string {
  if (resource === "cpu")
    return value >= 100_000 ? count(value / 1000) : String(Math.round(value) / 1000);
  return isBytes(resource) ? bytes(value) : count(value);
}

export function percent(share: number): string {
  if (!Number.isFinite(share)) return "–";
  const rounded = Math.round(100 * share);
  if (share > 0 && share < 0.01) return "<1 %";
  return share < 1 && rounded === 100 ? ">99 %" : `${rounded} %`;
}

const DEVICES = "device:";

/** Whether it stands for the devices of a driver, in place of a resource. */
export function isDevices(resource: string): boolean {
  return resource.startsWith(DEVICES);
}

/** A resource as people say it. */
export function resourceWords(resource: string): string {
  return isDevices(resource) ? `${resource.slice(DEVICES.length)} devices` : resource;
}

/** The short name of a resource: without the domain of its vendor. */
export function resourceName(resource: string): string {
  return resource.split("/").pop() ?? resource;
}
