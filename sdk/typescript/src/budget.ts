/**
 * What bounds a client's part in an outage, whatever the number of its callers: a slow start after it,
 * and a trickle while it lasts. It is the Go package backoff's Budget over again.
 *
 * A retry because nobody answered takes a token; without one it is put off and asks again. There are 10
 * tokens at most, and as many at first; one comes back each second, and two with each answer of the
 * gate, be it a yes, a place or a refusal. A refusal with an appointment takes none: the gate itself
 * said when.
 *
 * Counted in thousandths of a token, of which each whole millisecond brings one: whole numbers alone,
 * so that every SDK decides alike.
 */
import { part, toNs } from "./backoff.js";

const mostMilli = 10_000;
const tokenMilli = 1_000;
const paidMilli = 2_000;

/** One client's tokens. The clock is told in milliseconds; it may be any. */
export class Budget {
  #milli = mostMilli;
  #at: number;

  constructor(nowMs: number) {
    this.#at = nowMs;
  }

  /** Whether a retry may be sent now that follows no answer. */
  take(nowMs: number): boolean {
    this.#refill(nowMs);
    if (this.#milli < tokenMilli) return false;
    this.#milli -= tokenMilli;
    return true;
  }

  /** Tells of an answer of the gate. */
  answered(nowMs: number): void {
    this.#refill(nowMs);
    this.#add(paidMilli);
  }

  /** Adds what whole milliseconds brought; a clock that went back brings nothing. */
  #refill(nowMs: number): void {
    const passed = Math.floor(nowMs - this.#at);
    if (passed <= 0) return;
    this.#at += passed;
    this.#add(passed);
  }

  #add(milli: number): void {
    this.#milli = Math.min(this.#milli + milli, mostMilli);
  }
}

/** How long a retry without a token waits before it asks for one again: 0.5 to 1 s, in nanoseconds. */
export function putOff(random: bigint): bigint {
  const half = toNs(500);
  return half + part(half, random);
}
