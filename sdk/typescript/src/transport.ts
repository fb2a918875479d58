import { toMs } from "./backoff.js";
import { Budget, putOff } from "./budget.js";
import { type Clock, passOn, sleep } from "./clock.js";
import { Internal, type NotNow, PlimsollError, Unreachable, unanswered, unheard } from "./errors.js";
import { isJSON, refusalOf, type Reply } from "./problem.js";

/** The function that sends: `fetch`, or another one like it. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** One request. */
export interface Call {
  readonly method: "GET" | "POST" | "DELETE";
  /** Escaped, below the address. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** How long the server may hold it open. */
  readonly heldMs?: number;
  /** The same again is the same call. */
  readonly keyed?: boolean;
}

/** What a call came to, below status 300. */
export interface Answer {
  readonly status: number;
  readonly body: unknown;
}

export interface TransportSettings {
  readonly addresses: readonly URL[];
  readonly token: string;
  readonly fetch: Fetch;
  readonly clock: Clock;
  readonly random: () => bigint;
  readonly userAgent: string;
  /** How long a call may take beyond what it is held. */
  readonly timeoutMs: number;
}

/** The longest answer that is read, in bytes; the longest list is far below. */
const maxBody = 16 * 1024 * 1024;

/** What runs code on behalf of a page sends its own User-Agent, and may not send another. */
const inBrowser = (globalThis.navigator as { userAgent?: string } | undefined)?.userAgent?.startsWith(
  "Mozilla/",
);

/**
 * Sends to one of several replicas, and to the next where that one does not answer; it keeps count of
 * the retries that follow no answer.
 */
export class Transport {
  readonly clock: Clock;
  readonly random: () => bigint;
  readonly #budget: Budget;
  readonly #settings: TransportSettings;
  #at: number;

  constructor(settings: TransportSettings) {
    this.#settings = settings;
    this.clock = settings.clock;
    this.random = settings.random;
    this.#budget = new Budget(settings.clock.now());
    // So that many clients do not all ask the first.
    this.#at = Number(settings.random() % BigInt(settings.addresses.length));
  }

  /** Sends one request; an answer from 300 on is thrown. */
  async do(call: Call, signal?: AbortSignal): Promise<Answer> {
    let failed: unknown;
    let heard = false;
    for (const { base, at } of this.#inTurn()) {
      try {
        const answer = await this.#ask(base, call, signal);
        this.#at = at;
        return answer;
      } catch (error) {
        if (!unanswered(error) || signal?.aborted) {
          this.#at = at;
          throw error;
        }
        this.#at = (at + 1) % this.#settings.addresses.length; // whoever asks again begins there
        heard ||= !unheard(error);
        failed = unheard(error) && heard ? error.asHeard() : error; // by an address before
        if (!repeatable(call) && !unheard(error)) break;
      }
    }
    throw failed;
  }

  #inTurn(): { readonly base: URL; readonly at: number }[] {
    const all = this.#settings.addresses.map((base, at) => ({ base, at }));
    return [...all.slice(this.#at), ...all.slice(0, this.#at)];
  }

  /**
   * Waits until a retry may be sent: at once where the gate itself said no, and within the client's
   * budget where nobody answered. It throws the error when that would come after the deadline.
   */
  async permit(error: NotNow, deadline: number, signal?: AbortSignal): Promise<void> {
    while (!this.permitted(error)) {
      const delayMs = toMs(putOff(this.random()));
      if (this.clock.now() + delayMs >= deadline) throw error;
      await sleep(this.clock, delayMs, signal);
    }
  }

  /** Whether a retry may be sent now; what follows no answer takes a token for it. */
  permitted(error: unknown): boolean {
    return !unanswered(error) || this.#budget.take(this.clock.now());
  }

  #answered(): void {
    this.#budget.answered(this.clock.now());
  }

  async #ask(base: URL, call: Call, signal?: AbortSignal): Promise<Answer> {
    signal?.throwIfAborted();
    const bounded = new AbortController();
    const callOff = this.clock.after(this.#settings.timeoutMs + (call.heldMs ?? 0), () => {
      bounded.abort(new Error("it did not answer in time"));
    });
    const end = passOn(signal, bounded);
    try {
      return await this.#exchange(base, call, bounded.signal);
    } catch (error) {
      signal?.throwIfAborted();
      throw error;
    } finally {
      callOff();
      end();
    }
  }

  async #exchange(base: URL, call: Call, signal: AbortSignal): Promise<Answer> {
    let reply: Reply;
    try {
      const response = await this.#settings.fetch(target(base, call), this.#request(call, signal));
      const { status, headers } = response;
      reply = { status, headers, body: await text(response) };
    } catch (error) {
      if (error instanceof PlimsollError) throw error;
      const cause: unknown = signal.aborted ? signal.reason : error;
      throw new Unreachable(base.origin + base.pathname, cause, !neverConnected(error));
    }
    // A redirect is not followed: a token is not carried to wherever an answer points. Browsers
    // show nothing of it, not even its status.
    if (reply.status < 200 || reply.status >= 300) {
      const { error, ours } = refusalOf(reply, this.clock.wall());
      if (ours && !unanswered(error)) this.#answered();
      throw error;
    }
    const body = decode(call, reply);
    this.#answered();
    return { status: reply.status, body };
  }

  #request(call: Call, signal: AbortSignal): RequestInit {
    const headers = new Headers({ Accept: "application/json, application/problem+json" });
    if (this.#settings.token) headers.set("Authorization", `Bearer ${this.#settings.token}`);
    if (!inBrowser) headers.set("User-Agent", this.#settings.userAgent);
    const init: RequestInit = { method: call.method, headers, redirect: "manual", signal };
    if (call.body !== undefined) {
      headers.set("Content-Type", "application/json");
      init.body = JSON.stringify(call.body);
    }
    return init;
  }
}

function target(base: URL, call: Call): string {
  const url = new URL(base);
  url.pathname = base.pathname.replace(/\/$/, "") + call.path;
  url.search = new URLSearchParams({ ...call.query }).toString();
  return url.href;
}

/** Whether to ask twice is to ask once. */
function repeatable(call: Call): boolean {
  return call.keyed === true || call.method === "GET";
}

/** What fetch says on Node when there was no connection to send on; elsewhere it does not tell. */
const unconnected = [
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
];

function neverConnected(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause as { code?: unknown } | undefined) : undefined;
  return typeof cause?.code === "string" && unconnected.includes(cause.code);
}

/** Reads a body, and no more of it than an answer may have. */
async function text(response: Response): Promise<string> {
  if (!response.body) return "";
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  let read = "";
  for (let bytes = 0; ;) {
    const { done, value } = await reader.read();
    if (done) return read + decoder.decode();
    bytes += value.length;
    if (bytes > maxBody) {
      await reader.cancel();
      throw new Internal({ code: "", detail: `the answer is longer than ${maxBody} bytes` });
    }
    read += decoder.decode(value, { stream: true });
  }
}

function decode(call: Call, reply: Reply): unknown {
  const about = `${call.method} ${call.path}`;
  if (!isJSON(reply.headers)) {
    const detail = `${about}: the answer is not JSON: is this a Plimsoll server?`;
    throw new Internal({ code: "", detail, status: reply.status });
  }
  try {
    return JSON.parse(reply.body);
  } catch (cause) {
    throw new Internal({
      code: "",
      detail: `${about}: the answer cannot be read`,
      status: reply.status,
      cause,
    });
  }
}
