import { away, Backoff, boundedMs, type Policy, toMs, toNs } from "./backoff.js";
import { orAborted, sleep } from "./clock.js";
import {
  Internal,
  NotNow,
  PlimsollError,
  StillWaiting,
  unanswered,
  unheard,
  worthAnotherTry,
} from "./errors.js";
import type { WaitOptions } from "./options.js";
import type { Answer, Transport } from "./transport.js";
import type { Admission, AdmissionRequest, Code, Waiting } from "./wire.js";

/** How long one long poll is held. Somebody who watches is told more often. */
const pollQuietMs = 30_000;
const pollWatchedMs = 5_000;

/** Stays below the time in which a waiter that went away still counts as on time. */
const earlyPollsMs = 1_000;

/** Refusals that are about what stands already, and leave it as it is. */
const aboutWhatStands: readonly Code[] = ["host_silent", "host_draining", "reservation_lapsed", "releasing"];

/** A key, and what is posted under it; without a request there is something to attempt already. */
export interface Wanted {
  readonly key: string;
  readonly request?: AdmissionRequest;
}

/** One ask that goes on until it has a yes, a final no, or no patience left. */
export class Seeker {
  readonly #transport: Transport;
  readonly #key: string;
  readonly #options: WaitOptions;
  readonly #policy: Policy;
  readonly #deadline: number;
  /** Posted; undefined once there is a place to attempt. */
  #request: AdmissionRequest | undefined;
  /** Of tries without progress, in a row. */
  #pacer: Backoff;
  #attempts = 0;
  #refusedAt: number | undefined;
  #inFlight: Promise<unknown> = Promise.resolve();
  /** Something may stand at the server under the key. */
  #left: boolean;

  constructor(transport: Transport, ask: Wanted, policy: Policy, options: WaitOptions) {
    this.#transport = transport;
    this.#key = ask.key;
    this.#request = ask.request;
    this.#left = !ask.request;
    this.#policy = policy;
    this.#options = options;
    this.#deadline = transport.clock.now() + (options.patienceMs ?? 90_000);
    this.#pacer = this.#pace(policy.capMs);
  }

  async seek(): Promise<Admission> {
    for (;;) {
      this.#options.signal?.throwIfAborted();
      const asked = this.#now();
      const holdMs = this.#holdMs();
      try {
        const got = await this.#ask(holdMs);
        this.#left = true;
        if (!isWaiting(got)) return this.#admitted(got);
        this.#refusedAt ??= this.#now();
        await this.#wait(got, this.#now() - asked < holdMs / 2);
      } catch (error) {
        this.#left = this.#leaves(error);
        if (!worthAnotherTry(error)) throw error;
        if (error.status !== 0) this.#refusedAt ??= this.#now();
        await this.#pause(error);
      }
    }
  }

  /** Whether something may stand at the server under the key. */
  get left(): boolean {
    return this.#left;
  }

  #leaves(error: unknown): boolean {
    if (error instanceof StillWaiting) return true;
    if (unheard(error)) return this.#left;
    if (unanswered(error) || !(error instanceof PlimsollError) || unread(error)) return true;
    if (aboutWhatStands.some((code) => code === error.code)) return this.#left;
    return !this.#request && worthAnotherTry(error);
  }

  /** When nothing of this is on its way to a server any more. */
  async quiet(): Promise<void> {
    await this.#inFlight.catch(() => undefined);
  }

  #now(): number {
    return this.#transport.clock.now();
  }

  #leftMs(): number {
    return this.#deadline - this.#now();
  }

  /** How long the next call may be held open: a post is not held. */
  #holdMs(): number {
    if (this.#request) return 0;
    return Math.floor(
      Math.max(Math.min(this.#options.progress ? pollWatchedMs : pollQuietMs, this.#leftMs()), 0),
    );
  }

  async #ask(holdMs: number): Promise<Admission | Waiting> {
    this.#attempts++;
    return place(await (this.#request ? this.#post(this.#request) : this.#attempt(holdMs)));
  }

  /** A post is not broken off: nobody would know whether it was heard, so it could not be undone. */
  #post(body: AdmissionRequest): Promise<Answer> {
    const posted = this.#transport.do({ method: "POST", path: "/v1/admissions", body, keyed: true });
    this.#inFlight = posted;
    return orAborted(posted, this.#options.signal);
  }

  #attempt(heldMs: number): Promise<Answer> {
    const path = `${byKey(this.#key)}/attempt`;
    const query = { wait_ms: String(heldMs) };
    return this.#transport.do({ method: "POST", path, query, heldMs, keyed: true }, this.#options.signal);
  }

  #admitted(admission: Admission): Admission {
    const sinceFirstRefusalMs = this.#refusedAt === undefined ? undefined : this.#now() - this.#refusedAt;
    this.#options.admitted?.({ admission, attempts: this.#attempts, sinceFirstRefusalMs });
    return admission;
  }

  /**
   * Takes note of a place in the queue. `early` says that the server gave a long poll back long before
   * its time, as one does that stops: then the next is not asked at once. Else the server said how far
   * off the turn is.
   */
  async #wait(place: Waiting, early: boolean): Promise<void> {
    this.#request = undefined;
    this.#options.progress?.(place);
    if (this.#leftMs() <= 0) throw this.#outOfPatience(place);
    if (!early) {
      this.#pacer = this.#pace(Math.min(earlyPollsMs, this.#policy.capMs ?? earlyPollsMs));
      await this.#sleep(this.#awayMs(place));
      return;
    }
    const { verdict, delayNs } = this.#next({ status: 0 });
    if (verdict !== "retry") throw this.#outOfPatience(place);
    await this.#sleep(toMs(delayNs));
  }

  #outOfPatience(place: Waiting): StillWaiting {
    return new StillWaiting(place, !this.#options.giveUpPlace);
  }

  /**
   * How long a waiter leaves its place alone: until shortly before its turn, and not at all where
   * somebody watches. What a quota or a host frees nobody has measured, and memory is set aside only
   * for who is there.
   */
  #awayMs(place: Waiting): number {
    if (this.#options.progress || place.waiting_for !== "slot") return 0;
    return away(boundedMs(place.poll_after_ms), this.#leftMs(), pollQuietMs);
  }

  /**
   * Waits for the next try, or throws the no when the next try would come after the end of patience.
   * It never comes before the server's appointment.
   */
  async #pause(error: NotNow): Promise<void> {
    if (this.#leftMs() <= 0) throw error;
    const { verdict, delayNs } = this.#next({ status: 503, retryMs: error.retryAfterMs });
    if (verdict !== "retry") throw error;
    if (this.#request && error.receipt) this.#request = { ...this.#request, receipt: error.receipt };
    this.#options.retry?.(error, toMs(delayNs));
    await this.#sleep(toMs(delayNs));
    await this.#transport.permit(error, this.#deadline, this.#options.signal);
  }

  #next(outcome: { status: number; retryMs?: number }): ReturnType<Backoff["next"]> {
    const { clock, random } = this.#transport;
    return this.#pacer.next(toNs(this.#now()), outcome, random(), clock.wall());
  }

  /** Begins to count tries anew, within what is left of the patience. */
  #pace(capMs: number | undefined): Backoff {
    const deadlineMs = Math.max(this.#leftMs(), 0.000_001);
    return new Backoff({ baseMs: this.#policy.baseMs, capMs, deadlineMs }, toNs(this.#now()));
  }

  #sleep(ms: number): Promise<void> {
    return sleep(this.#transport.clock, ms, this.#options.signal);
  }
}

/** A yes that could not be read. */
function unread(error: PlimsollError): boolean {
  return error instanceof Internal && error.status < 300;
}

function isWaiting(got: Admission | Waiting): got is Waiting {
  return "waiting_for" in got;
}

/** Reads an answer to a post or an attempt. */
function place(answer: Answer): Admission | Waiting {
  const got = record(answer.body);
  if (answer.status === 202 ? "waiting_for" in got : "id" in got && "epoch" in got)
    return got as unknown as Admission;
  const detail = "the answer is neither an admission nor a place: is this a Plimsoll server?";
  throw new Internal({ code: "", detail, status: answer.status });
}

function record(body: unknown): object {
  return typeof body === "object" && body !== null ? body : {};
}

export function byKey(key: string): string {
  return `/v1/admissions/${encodeURIComponent(key)}`;
}

export function byId(id: string): string {
  return `/v1/admissions/id/${encodeURIComponent(id)}`;
}
