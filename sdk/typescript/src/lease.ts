/// <reference lib="esnext.disposable" preserve="true" />
import { type Clock, passOn, sleep } from "./clock.js";
import { LeaseLost, NotReleased, PlimsollError, words } from "./errors.js";
import type { Admission, AdmissionState } from "./wire.js";

/** The states in which there is something to keep. */
const alive: readonly AdmissionState[] = ["placing", "admitted", "running"];

/** How many heartbeats a lease is long: the server asks for one each third of it. */
const beatsPerLife = 3;

/** How often what needs no heartbeat is looked at: a sandbox that runs on a host is kept by that host. */
const quietLookMs = 20_000;

/** The shortest pause before a heartbeat that failed is sent again, and that without a token. */
const soonestMs = 50;
const withoutTokenMs = 1_000;

/** What a lease needs of its client. */
export interface Keeper {
  readonly clock: Clock;
  heartbeat(id: string, signal: AbortSignal): Promise<Admission>;
  look(id: string, signal: AbortSignal): Promise<Admission>;
  /** Whether a call that failed so may be made again at once. */
  permitted(error: unknown): boolean;
  giveBack(last: Admission): Promise<void>;
  /** Told once, when the lease is given back. */
  done(lease: Lease): void;
}

/**
 * One admission that is held: kept alive by heartbeats in the background, and given back once, by
 * `release` or by the end of an `await using` block.
 */
export class Lease implements AsyncDisposable {
  /** Aborts when the lease is lost (its reason is a {@link LeaseLost}), or its caller's signal does. */
  readonly signal: AbortSignal;
  /** Settles when the lease was given back, or could not be. */
  readonly gone: Promise<void>;
  readonly #keeper: Keeper;
  readonly #told = new AbortController();
  readonly #over = new AbortController();
  readonly #beating: Promise<void>;
  #admission: Admission;
  #everyMs = quietLookMs;
  /** It ends when nothing is heard of it. */
  #ends = false;
  /** When the last call began that was answered. */
  #heardAt: number;
  #lost: LeaseLost | undefined;
  #released: Promise<void> | undefined;
  #goes: () => void = () => undefined;

  constructor(keeper: Keeper, admission: Admission, signal?: AbortSignal) {
    this.#keeper = keeper;
    this.#admission = admission;
    this.#heardAt = keeper.clock.now();
    this.#due();
    this.signal = this.#told.signal;
    this.gone = new Promise((resolve) => (this.#goes = resolve));
    const end = passOn(signal, this.#told);
    this.#over.signal.addEventListener("abort", end);
    this.#beating = this.#keep();
  }

  /** The admission as the server last told it. */
  get admission(): Admission {
    return this.#admission;
  }

  /** The newest ticket: an older one is worth nothing. A secret; empty for what has booted on a host. */
  get ticket(): string {
    return this.#admission.ticket ?? "";
  }

  /** Why it is lost; undefined while it is not. */
  get lost(): LeaseLost | undefined {
    return this.#lost;
  }

  /** Tells whoever works on this lease to stop. It is still to be given back. */
  interrupt(reason: unknown): void {
    this.#told.abort(reason);
  }

  /**
   * Gives the admission back. It may be called twice.
   *
   * @throws {NotReleased} when no replica could be told.
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
      await this.#keeper.giveBack(this.#admission);
    } catch (error) {
      // What is said to be over is told all the same: a replica was wrong, or a clock of ours.
      if (!this.#lost) throw new NotReleased(this.#admission.key, error);
    } finally {
      this.#keeper.done(this);
      this.#goes();
    }
  }

  /** Notes when the next heartbeat is. */
  #due(): void {
    const { heartbeat_ms = 0, audience } = this.#admission;
    this.#everyMs = heartbeat_ms > 0 ? heartbeat_ms : quietLookMs;
    // What a host holds is that host's to end: it goes on while no replica is there.
    this.#ends = audience !== undefined;
  }

  /** How long the lease lasts without another word. */
  #leftMs(): number {
    if (!this.#ends) return this.#everyMs;
    return this.#heardAt + beatsPerLife * this.#everyMs - this.#keeper.clock.now();
  }

  /** Keeps the admission alive until it is given back or lost. */
  async #keep(): Promise<void> {
    let pauseMs = this.#everyMs;
    while (!this.#lost) {
      await sleep(this.#keeper.clock, pauseMs, this.#over.signal, true).catch(() => undefined);
      if (this.#over.signal.aborted) return;
      pauseMs = await this.#beat();
    }
  }

  /** One heartbeat, by the id: the key may come to name another admission. It returns the next pause. */
  async #beat(): Promise<number> {
    const { clock } = this.#keeper;
    const bounded = new AbortController();
    const late = (): void => {
      bounded.abort(new Error("its time has passed"));
    };
    const callOff = this.#ends ? clock.after(Math.max(this.#leftMs(), soonestMs), late, true) : undefined;
    const end = passOn(this.#over.signal, bounded);
    const began = clock.now();
    try {
      this.#take(await this.#keeper.heartbeat(this.#admission.id, bounded.signal), began);
      return this.#everyMs;
    } catch (error) {
      if (isOver(error) && (await this.#endedItself())) {
        this.#over.abort();
        return 0;
      }
      return this.#failed(error);
    } finally {
      callOff?.();
      end();
    }
  }

  /**
   * Whether what is over is a sandbox that ran on a host and has ended there: whoever waits for that
   * hears of it by itself.
   */
  async #endedItself(): Promise<boolean> {
    if (this.#admission.host === undefined) return false;
    const last = await this.#keeper.look(this.#admission.id, this.#over.signal).catch(() => undefined);
    return last?.state === "released" && last.started_at !== undefined;
  }

  #take(heard: Admission, began: number): void {
    if (!alive.includes(heard.state)) {
      this.#lose(`it is ${heard.state}`);
      return;
    }
    this.#admission = heard;
    this.#heardAt = began;
    this.#due();
  }

  /** Judges what went wrong with a heartbeat, and says when to send another. */
  #failed(error: unknown): number {
    const leftMs = this.#leftMs();
    if (isOver(error) || isForbidden(error)) this.#lose(words(error), error);
    else if (leftMs <= 0) this.#lose("no replica was heard until its time had passed", error);
    const pauseMs = Math.max(leftMs / beatsPerLife, soonestMs);
    return this.#keeper.permitted(error) ? pauseMs : Math.max(pauseMs, Math.min(leftMs, withoutTokenMs));
  }

  #lose(why: string, cause?: unknown): void {
    if (this.#over.signal.aborted) return;
    this.#lost = new LeaseLost(this.#admission, why, cause);
    this.interrupt(this.#lost);
  }
}

/** Whether an error says that nothing is held any more. */
export function isOver(error: unknown): boolean {
  return error instanceof PlimsollError && error.code === "not_found";
}

function isForbidden(error: unknown): boolean {
  return error instanceof PlimsollError && error.code === "forbidden";
}
