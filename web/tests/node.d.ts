/** The little of Node.js that the tests use; its own types are megabytes. */

declare module "node:test" {
  export function test(name: string, body: () => void | Promise<void>): void;
}

declare module "node:assert/strict" {
  export function equal(found: unknown, wanted: unknown, message?: string): void;
  export function deepEqual(found: unknown, wanted: unknown, message?: string): void;
  export function ok(found: unknown, message?: string): void;
  export function rejects(made: Promise<unknown>, wanted: RegExp): Promise<void>;
}
