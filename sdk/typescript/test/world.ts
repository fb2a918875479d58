// A world of its own for one client: a server that is a function, and time that passes only when
// everybody waits.
import { setImmediate } from "node:timers/promises";
import { Client, type ClientOptions, type Clock } from "../src/index.js";
import type { TransportSettings } from "../src/transport.js";

/** One request as the server sees it. */
export interface Seen {
  readonly at: number;
  readonly method: string;
  /** Without its address. */
  readonly path: string;
  readonly host: string;
  readonly query: URLSearchParams;
  readonly headers: Headers;
  readonly body: Record<string, unknown>;
  readonly signal: AbortSignal;
}

export type Server = (seen: Seen, nth: number) => Response | Promise<Response>;

interface Timer {
  readonly at: number;
  readonly then: () => void;
}

const token = "secret-token";
const noon = Date.UTC(2026, 8, 8, 12);

export class World {
  readonly seen: Seen[] = [];
  readonly unreleased: unknown[] = [];
  readonly clock: Clock;
  #now = 0;
  #timers = new Set<Timer>();

  constructor(wallMs = noon) {
    this.clock = {
      now: () => this.#now,
      wall: () => wallMs + this.#now,
      after: (ms, then) => {
        const timer = { at: this.#now + ms, then };
        this.#timers.add(timer);
        return () => this.#timers.delete(timer);
      },
    };
  }

  /** A client whose jitter is half of each window. */
  client(server: Server, options: ClientOptions & { addresses?: string } = {}): Client {
    const { addresses = "http://a", ...more } = options;
    return new Client(addresses, token, {
      ...this.settings(server),
      unreleased: (error) => this.unreleased.push(error),
      ...more,
    });
  }

  settings(server: Server): Omit<TransportSettings, "addresses"> {
    return {
      token,
      clock: this.clock,
      random: () => 1n << 63n,
      fetch: (url, init) => this.#fetch(server, new URL(url), init),
      userAgent: "test",
      timeoutMs: 15_000,
    };
  }

  /** What has been asked, as "POST /v1/admissions" lines. */
  get asked(): string[] {
    return this.seen.map(({ method, path }) => `${method} ${path}`);
  }

  get now(): number {
    return this.#now;
  }

  /** How long until, in this world's time. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.clock.after(ms, resolve));
  }

  /** Lets time pass until a promise comes to something, and returns that. */
  async until<T>(promise: Promise<T>): Promise<T> {
    const state = { settled: false };
    const end = promise.finally(() => (state.settled = true));
    end.catch(() => undefined);
    for (let turns = 0; !state.settled; turns++) {
      if (turns % 10 < 9) await setImmediate();
      else this.#next(); // everybody waits
    }
    return end;
  }

  /** What a promise that must fail throws. */
  async failure(promise: Promise<unknown>): Promise<unknown> {
    const failed = await this.until(
      promise.then(
        () => undefined,
        (error: unknown) => ({ error }),
      ),
    );
    if (!failed) throw new Error("it did not fail");
    return failed.error;
  }

  #next(): void {
    const [next] = [...this.#timers].sort((a, b) => a.at - b.at);
    if (!next) throw new Error("everybody waits for ever");
    this.#timers.delete(next);
    this.#now = Math.max(this.#now, next.at);
    next.then();
  }

  async #fetch(server: Server, url: URL, init: RequestInit): Promise<Response> {
    const { signal } = init;
    if (!signal || init.redirect !== "manual")
      throw new Error("a request without a signal, or that follows redirects");
    const seen: Seen = {
      at: this.#now,
      method: init.method ?? "",
      path: url.pathname,
      host: url.host,
      query: url.searchParams,
      headers: new Headers(init.headers),
      body: typeof init.body === "string" ? (JSON.parse(init.body) as Record<string, unknown>) : {},
      signal,
    };
    this.seen.push(seen);
    const broken = new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => {
        reject(signal.reason as Error);
      });
    });
    return Promise.race([broken, server(seen, this.seen.length)]);
  }
}

/** An answer in JSON. */
export function json(status: number, body: object, headers: Record<string, string> = {}): Response {
  const kind = status < 300 ? "application/json" : "application/problem+json";
  return new Response(JSON.stringify(body), { status, headers: { "Content-Type": kind, ...headers } });
}

/** A no of ours. */
export function problem(status: number, code: string, more: object = {}): Response {
  return json(status, { type: `urn:plimsoll:problem:${code}`, title: code, status, code, ...more });
}

/** A yes for a key. */
export function yes(key: unknown, more: object = {}): Response {
  const at = "2026-09-08T12:00:00Z";
  const same = { consumer: "ci", class: "agent", state: "admitted", epoch: 7, created_at: at };
  return json(201, {
    id: "adm-1",
    key,
    ...same,
    ticket: "plm1.x",
    heartbeat_ms: 20_000,
    audience: "cloud",
    ...more,
  });
}

/** A place in the queue. */
export function place(key: unknown, more: object = {}): Response {
  const same = { code: "waiting_capacity", id: "adm-1", state: "waiting_capacity", waiting_for: "slot" };
  return json(202, { ...same, key, queued_for_ms: 0, poll_after_ms: 0, retry_after_ms: 0, ...more });
}

/** How a connection is lost. */
export function lost(code = "ECONNRESET"): never {
  throw new TypeError("fetch failed", { cause: Object.assign(new Error(`read ${code}`), { code }) });
}
