/** Requests to the scheduler: relative to the page, with the reader's token, a few at a time. */

import { signal } from "@preact/signals";

import type { Replica } from "./types";

/** The scheduler answers three looks of one address at once; one is left for other tabs. */
const AT_ONCE = 2;
const TIMEOUT_MS = 20_000;
const RETRIES = 3;
const TOKEN_KEY = "equipoise-token";
/** Behind the API server's proxy `Authorization` belongs to the API server. */
const TOKEN_HEADER = "Equipoise-Authorization";

export class ApiError extends Error {
  constructor(
    /** The status of the answer; 0 if there was none. */
    readonly status: number,
    message: string,
  ) {
    super(message);
  }

  /** Whether another token may help. */
  get isRefusal(): boolean {
    return this.status === 401 || this.status === 403;
  }
}

function stored(): string {
  try {
    return sessionStorage.getItem(TOKEN_KEY) ?? "";
  } catch {
    return "";
  }
}

export const token = signal(stored());
/** Why the last request was refused, until one is answered. */
export const refusal = signal<ApiError | null>(null);
/** Since when no request is answered, in milliseconds since the epoch; null while they are. */
export const silentSince = signal<number | null>(null);
export const answeredAt = signal<number | null>(null);
/** Who answers, as its last answer says. */
export const replica = signal<Replica | null>(null);

/** Use a token from now on; `keep` it until the tab is closed, also when the page is reloaded. */
export function adoptToken(text: string, keep: boolean): void {
  token.value = text.trim();
  refusal.value = null;
  try {
    if (keep && token.value) sessionStorage.setItem(TOKEN_KEY, token.value);
    else sessionStorage.removeItem(TOKEN_KEY);
  } catch {
    // It is kept in memory.
  }
}

/** The address of a path of the API, seen from where the page is. */
export function address(path: string): URL {
  return new URL(`../${path.replace(/^\//, "")}`, document.baseURI);
}

export function headers(): Record<string, string> {
  return token.value ? { [TOKEN_HEADER]: `Bearer ${token.value}` } : {};
}

let running = 0;
const waiting: (() => void)[] = [];

async function slot(): Promise<void> {
  if (running >= AT_ONCE) await new Promise<void>((resolve) => waiting.push(resolve));
  running += 1;
}

function release(): void {
  running -= 1;
  waiting.shift()?.();
}

async function explained(response: Response): Promise<ApiError> {
  let message = `${response.status} ${response.statusText}`;
  try {
    const body = (await response.json()) as { error?: { message?: string } };
    message = body.error?.message ?? message;
  } catch {
    // A proxy answers in words of its own.
  }
  return new ApiError(response.status, message);
}

function noted(error: ApiError): ApiError {
  if (error.isRefusal) refusal.value = error;
  else if (error.status === 0 || error.status >= 502) silentSince.value ??= Date.now();
  return error;
}

async function once(path: string, init: RequestInit, signal?: AbortSignal): Promise<Response> {
  const limits = [AbortSignal.timeout(TIMEOUT_MS), ...(signal ? [signal] : [])];
  try {
    return await fetch(address(path), {
      ...init,
      headers: { Accept: "application/json", ...headers(), ...init.headers },
      signal: AbortSignal.any(limits),
      credentials: "same-origin",
      cache: "no-store",
    });
  } catch (fault) {
    if (signal?.aborted) throw fault;
    const late = fault instanceof DOMException && fault.name === "TimeoutError";
    throw new ApiError(
      0,
      late ? "The scheduler does not answer." : "The scheduler cannot be reached.",
    );
  }
}

type Reading<T> = (response: Response) => Promise<T>;

async function asJson<T>(response: Response): Promise<T> {
  const body = (await response.json()) as T & { replica?: Replica };
  if (body.replica) replica.value = body.replica;
  return body;
}

function asBytes(response: Response): Promise<ArrayBuffer> {
  return response.arrayBuffer();
}

async function answered<T>(
  path: string,
  init: RequestInit,
  reading: Reading<T>,
  signal?: AbortSignal,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    const response = await once(path, init, signal);
    if (response.status === 429 && attempt <= RETRIES) {
      await new Promise((resolve) => setTimeout(resolve, 400 * attempt));
      continue;
    }
    if (!response.ok) throw await explained(response);
    const body = await reading(response);
    refusal.value = null;
    silentSince.value = null;
    answeredAt.value = Date.now();
    return body;
  }
}

async function asked<T>(
  path: string,
  init: RequestInit,
  reading: Reading<T>,
  signal?: AbortSignal,
): Promise<T> {
  await slot();
  try {
    return await answered(path, init, reading, signal);
  } catch (fault) {
    if (fault instanceof ApiError) throw noted(fault);
    if (signal?.aborted) throw fault;
    throw noted(new ApiError(0, String(fault)));
  } finally {
    release();
  }
}

function sent(body: string): RequestInit {
  return { method: "POST", body, headers: { "Content-Type": "application/json" } };
}

/** Read a path; throws ApiError. */
export function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return asked<T>(path, {}, asJson<T>, signal);
}

/** Read a path that answers with more than the page wants to take apart itself; throws ApiError. */
export function getBytes(path: string, signal?: AbortSignal): Promise<ArrayBuffer> {
  return asked(path, {}, asBytes, signal);
}

/** The same for JSON that is sent. */
export function postForBytes(
  path: string,
  body: string,
  signal?: AbortSignal,
): Promise<ArrayBuffer> {
  return asked(path, sent(body), asBytes, signal);
}
