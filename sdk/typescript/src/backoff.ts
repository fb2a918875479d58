/**
 * When a refused caller asks again, and when it stops. It decides on a status, a hint and a random
 * number; it does not sleep, send, or read a clock. It is the Go package backoff over again, and
 * sdk/vectors hold the two together to the bit: so times are whole nanoseconds in here.
 *
 *     window = min(cap, base × 2^attempt), shortened to what the deadline leaves
 *     delay  = hint + a random part of the window; without a hint the random part alone (full jitter)
 *
 * Worked: third refusal, hint 2 s: the window is 0.25 s × 2² = 1 s, so the delay is from 2 to 3 s.
 * Never below the hint, since the server said when its room is; never exactly it, since fifty callers
 * may have been told the same.
 */

const nsInMs = 1_000_000n;

/** The longest hint that is told from another; all beyond are out of any patience. */
const farthestMs = 24 * 60 * 60 * 1000;

/** The longest patience: a year. */
const longestMs = 365 * farthestMs;

/** How patient a caller is; what is left out or not above 0 takes its default. */
export interface Policy {
  /** The first window; 250 ms. */
  readonly baseMs?: number | undefined;
  /** The widest window; 8,000 ms. */
  readonly capMs?: number | undefined;
  /** From the first try to the last; 90,000 ms. */
  readonly deadlineMs?: number | undefined;
}

/** How a try ended. */
export interface Outcome {
  /** Of HTTP; 0 when the connection was lost or never made. */
  readonly status: number;
  /** `retry_after_ms` of the body, which goes before the header. */
  readonly retryMs?: number | undefined;
  /** The Retry-After header: seconds or an HTTP date. */
  readonly retryAfter?: string | undefined;
}

/**
 * What to do after a try: ask again after the delay; stop, because the status is not one of "not now";
 * or end because the deadline has come, or lies before the hint.
 */
export type Verdict = "retry" | "stop" | "out_of_patience";

/** What a try led to; the delay is 0 unless the verdict is "retry". */
export interface Decision {
  readonly verdict: Verdict;
  readonly delayNs: bigint;
}

/** Whole nanoseconds of a number of milliseconds, absurd ones bounded. */
export function toNs(ms: number): bigint {
  if (!(ms > 0)) return 0n;
  return BigInt(Math.round(Math.min(ms, longestMs) * Number(nsInMs)));
}

/** The milliseconds of a delay. */
export function toMs(ns: bigint): number {
  return Number(ns) / Number(nsInMs);
}

/** The longest number of milliseconds that is told from a longer one: of hints and of times to poll. */
export function boundedMs(ms: number): number {
  return Math.min(Math.max(ms, 0), farthestMs);
}

/**
 * Whether a status is a tempo: 502, 503, 504, or no answer at all. A 4xx is the caller's to change,
 * 429 too: it never means capacity here.
 */
export function retryable(status: number): boolean {
  return status === 0 || status === 502 || status === 503 || status === 504;
}

/** One request's tries so far. The clock that `start` and `next` are told may be any that only rises. */
export class Backoff {
  readonly #base: bigint;
  readonly #cap: bigint;
  readonly #end: bigint;
  #attempt = 0;

  constructor(policy: Policy, start: bigint) {
    this.#base = positive(policy.baseMs, 250);
    this.#cap = positive(policy.capMs, 8_000);
    this.#end = start + positive(policy.deadlineMs, 90_000);
  }

  /** How many refusals there were. */
  get attempts(): number {
    return this.#attempt;
  }

  /**
   * Takes the outcome of a try that ended at `now` and says how long to wait before another. `random`
   * is a fresh random number below 2^64; `wallMs`, the time of day, is for a hint that is a date.
   */
  next(now: bigint, outcome: Outcome, random: bigint, wallMs: number): Decision {
    if (!retryable(outcome.status)) return { verdict: "stop", delayNs: 0n };
    const left = this.#end - now;
    const hint = hintNs(outcome, wallMs);
    if (left <= 0n || hint >= left || this.#crowds(left - hint)) {
      return { verdict: "out_of_patience", delayNs: 0n };
    }
    const window = smaller(this.#window(), left - hint);
    this.#attempt++;
    return { verdict: "retry", delayNs: hint + part(window, random) };
  }

  /**
   * Whether too little patience is left for another try: windows that shrink with it would put ever
   * more tries into its last moments.
   */
  #crowds(left: bigint): boolean {
    return this.#attempt > 0 && left < this.#base;
  }

  #window(): bigint {
    let window = this.#base;
    for (let i = 0; i < this.#attempt; i++) {
      if (window >= this.#cap / 2n) return this.#cap;
      window *= 2n;
    }
    return smaller(window, this.#cap);
  }
}

function positive(ms: number | undefined, otherwise: number): bigint {
  const ns = toNs(ms ?? 0);
  return ns > 0n ? ns : toNs(otherwise);
}

function smaller(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

/** A random part of a window, from nothing up to all of it. */
export function part(windowNs: bigint, random: bigint): bigint {
  return ((windowNs + 1n) * random) >> 64n;
}

/**
 * How long a waiter in a line stays away before it holds on for its turn, in a call that is held for
 * up to `holdMs`: until the server wants it back, but not into the last hold of its patience. Its place
 * is kept meanwhile.
 */
export function away(pollAfterMs: number, leftMs: number, holdMs: number): number {
  return Math.max(Math.min(pollAfterMs, leftMs - holdMs), 0);
}

/**
 * How long the server asked to wait: `retry_after_ms`, else Retry-After in seconds, else as a date
 * judged by `wallMs`. A hint in the past, or one that cannot be read, is none.
 */
export function hintNs(outcome: Outcome, wallMs: number): bigint {
  return toNs(hintMs(outcome, wallMs));
}

function hintMs(outcome: Outcome, wallMs: number): number {
  if (outcome.retryMs !== undefined && outcome.retryMs > 0) return boundedMs(outcome.retryMs);
  const text = (outcome.retryAfter ?? "").replace(/^[ \t]+|[ \t]+$/g, "");
  if (/^[0-9]+$/.test(text)) return boundedMs(Number(text) * 1000);
  const at = httpDate(text);
  return at === undefined ? 0 : boundedMs(at - wallMs);
}

const months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const month = `(?<month>${months.join("|")})`;
const time = "(?<hour>\\d\\d):(?<minute>\\d\\d):(?<second>\\d\\d)";
const short = "(?:mon|tue|wed|thu|fri|sat|sun)";
const long = "(?:mon|tues|wednes|thurs|fri|satur|sun)day";

/** The three forms of an HTTP date (RFC 9110, 5.6.7); all of them are in GMT. */
const forms = [
  `^${short}, (?<day>\\d\\d) ${month} (?<year>\\d{4}) ${time} GMT$`,
  `^${long}, (?<day>\\d\\d)-${month}-(?<year>\\d\\d) ${time} GMT$`,
  `^${short} ${month} +(?<day>\\d{1,2}) ${time} (?<year>\\d{4})$`,
].map((form) => new RegExp(form, "i"));

function httpDate(text: string): number | undefined {
  for (const form of forms) {
    const found = form.exec(text)?.groups;
    if (found) return instant(found);
  }
  return undefined;
}

/** The instant of a date's parts, undefined for one that no calendar has. */
function instant(of: Readonly<Record<string, string>>): number | undefined {
  const [day, hour, minute, second] = [of["day"], of["hour"], of["minute"], of["second"]].map(Number);
  if (day === undefined || hour === undefined || minute === undefined || second === undefined)
    return undefined;
  if (hour > 23 || minute > 59 || second > 59) return undefined;
  const at = new Date(0);
  at.setUTCFullYear(fullYear(of["year"] ?? ""), months.indexOf((of["month"] ?? "").toLowerCase()), day);
  at.setUTCHours(hour, minute, second);
  return at.getUTCDate() === day ? at.getTime() : undefined;
}

/** Two digits of a year are of 1969 to 2068. */
function fullYear(digits: string): number {
  const year = Number(digits);
  if (digits.length > 2) return year;
  return year >= 69 ? 1900 + year : 2000 + year;
}
