import { passOn, sleep } from "./clock.js";
import { Never, NotAllowed, PlimsollError } from "./errors.js";
import type { Client } from "./client.js";
import type { Clock } from "./clock.js";
import type { Admission, AdmissionState } from "./wire.js";

/**
 * What was held is held no longer: its server said so, or was not heard of until its time had passed.
 * Stop what runs on it. It is no failure of the work: park that as `waiting_capacity` and ask anew.
 */
export class LeaseLost extends Error {
  readonly admission: Admission;

  constructor(admission: Admission, why: string, cause?: unknown) {
    super(`the admission ${admission.key} is lost: ${why}`, { cause });
    this.name = new.target.name;
    this.admission = admission;
  }
}

/** The states from which nothing comes back. */
const ended: readonly AdmissionState[] = ["releasing", "released", "timed_out", "expired", "evicted", "lost"];

/** A heartbeat's interval is a third of what its lease lives for. */
const beatsPerLife = 3;

/** The shortest pause between two heartbeats. */
const shortestMs = 20;

/** The parts of a client that a lease stands on. */
export interface Keeper {
  readonly client: Client;
  readonly clock: Clock;
  /** Told once, when the lease is given back. */
  readonly done: (lease: Lease) => void;
}

/**
 * One admission that is held: kept alive by heartbeats in the background, and given back once, by
 * `release` or by the end of an `await using` block.
 */
export class Lease implements AsyncDisposable {
  /** Aborts when the lease is lost (its reason is a {@link LeaseLost}), or its caller's signal does. */
  readonly signal: AbortSignal;
  readonly #keeper: Keeper;
  readonly #told = new AbortController();
  readonly #over = new AbortController();
  readonly #beating: Promise<void>;
  #admission: Admission;
  #released: Promise<void> | undefined;

  constructor(keeper: Keeper, admission: Admission, heardAt: number, signal?: AbortSignal) {
    this.#keeper = keeper;
    this.#admission = admission;
    this.signal = this.#told.signal;
    const pass = (): void => {
      this.interrupt(signal?.reason);
    };
    signal?.addEventListener("abort", pass, { once: true, signal: this.#over.signal });
    if (signal?.aborted) pass();
    this.#beating = this.#keep(heardAt);
  }

  /** The admission as the server last told it. */
  get admission(): Admission {
    return this.#admission;
  }

  /** The newest ticket: an older one is worth nothing. A secret; empty for what has booted on a host. */
  get ticket(): string {
    return this.#admission.ticket ?? "";
  }

  /** Tells whoever works on this lease to stop. It is still to be given back. */
  interrupt(reason: unknown): void {
    this.#told.abort(reason);
  }

  /**
   * Gives the admission back. It may be called twice. It throws when no replica could be told: then the
   * admission ends by itself, when its time has passed.
   */
  release(): Promise<void> {
    this.#released ??= this.#giveBack();
    return this.#released;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  async #giveBack(): Promise<void> {
    this.#over.abort();
    await this.#beating;
    try {
      await this.#keeper.client.tellRelease(this.#admission);
    } finally {
      this.#keeper.done(this);
    }
  }

  /** Keeps the admission alive until it is given back or lost. */
  async #keep(heardAt: number): Promise<void> {
    let everyMs = this.#admission.heartbeat_ms ?? 0;
    let endsAt = heardAt + beatsPerLife * everyMs;
    let dueAt = heardAt + everyMs;
    while (everyMs > 0) {
      if (!(await this.#until(dueAt))) return;
      const askedAt = this.#keeper.clock.now();
      const lost = await this.#beat(endsAt);
      if (this.#over.signal.aborted) return;
      if (lost instanceof LeaseLost) {
        this.interrupt(lost);
        return;
      }
      if (lost) {
        dueAt = askedAt + Math.max((endsAt - askedAt) / beatsPerLife, shortestMs);
        continue;
      }
      everyMs = this.#admission.heartbeat_ms ?? 0;
      endsAt = askedAt + beatsPerLife * everyMs;
      dueAt = askedAt + Math.max(everyMs, shortestMs);
    }
  }

  /** Waits; false says that the lease was given back meanwhile. */
  async #until(at: number): Promise<boolean> {
    const { clock } = this.#keeper;
    await sleep(clock, at - clock.now(), this.#over.signal, true).catch(() => undefined);
    return !this.#over.signal.aborted;
  }

  /** One heartbeat; it returns what went wrong, a LeaseLost if that is the end. */
  async #beat(endsAt: number): Promise<unknown> {
    const { client, clock } = this.#keeper;
    const bounded = new AbortController();
    const callOff = clock.after(
      endsAt - clock.now(),
      () => {
        bounded.abort(new Error("its time has passed"));
      },
      true,
    );
    const end = passOn(this.#over.signal, bounded);
    try {
      const admission = await client.heartbeatId(this.#admission.id, { signal: bounded.signal });
      if (ended.includes(admission.state)) return new LeaseLost(admission, `it is ${admission.state}`);
      this.#admission = { ...admission, ticket: admission.ticket ?? this.ticket };
      return undefined;
    } catch (error) {
      return this.#judge(error, endsAt);
    } finally {
      callOff();
      end();
    }
  }

  #judge(error: unknown, endsAt: number): unknown {
    if (error instanceof Never || error instanceof NotAllowed) {
      return new LeaseLost(this.#admission, error.message, error);
    }
    if (this.#keeper.clock.now() < endsAt) return error;
    return new LeaseLost(this.#admission, "no replica was heard until its time had passed", error);
  }
}

/** Whether an error says that nothing is held any more. */
export function isOver(error: unknown): boolean {
  return error instanceof PlimsollError && error.code === "not_found";
}
