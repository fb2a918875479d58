import { isCode, type Kind, meanings } from "./codes.js";
import type { Admission, Code, Problem, Scope, TicketReason, Waiting } from "./wire.js";

/** The numbers behind a no: where the caller stands. */
export type Figures = Pick<
  Problem,
  | "waiting_for"
  | "pool"
  | "pool_busy"
  | "cap"
  | "position"
  | "queued_for_ms"
  | "timed_out"
  | "limit"
  | "use"
  | "share"
  | "override"
  | "elsewhere_fits"
  | "tally"
  | "hosts"
>;

/** Codes that no server sends: no answer at all or none that can be read, and what befalls a lease. */
export type OwnCode = "" | "lost" | "not_released";

/** What a no is made of. */
export interface Told {
  readonly code: Code | OwnCode;
  readonly detail?: string | undefined;
  readonly scope?: Scope | undefined;
  readonly remedy?: string | undefined;
  readonly decisionId?: string | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly receipt?: string | undefined;
  readonly reason?: TicketReason | undefined;
  readonly figures?: Figures | undefined;
  /** Of HTTP; 0 where there was no answer. */
  readonly status?: number | undefined;
  readonly cause?: unknown;
}

/**
 * Everything that this client throws and that is no bug of its caller, nor its caller's own
 * cancellation: that is thrown as the signal's reason.
 *
 * Which of its classes it is says what to do: a {@link NotNow} waits, a {@link NotAllowed} and a
 * {@link Never} need a change, an {@link Internal} needs somebody who looks at the server.
 */
export abstract class PlimsollError extends Error {
  abstract readonly kind: Kind | "lost" | "not_released";
  /** The stable name of the outcome; empty where there was no answer, or none that can be read. */
  readonly code: Code | OwnCode;
  /** Whose no it is; empty where it is nobody's. */
  readonly scope: Scope | "";
  /** Which field, which figure; for people. */
  readonly detail: string;
  /** What to do about it. */
  readonly remedy: string;
  /** Names the decision, for `plimsoll explain` and in the server's log; empty where there was none. */
  readonly decisionId: string;
  /** The server's appointment for this caller; 0 if it gave none. Come later rather than sooner. */
  readonly retryAfterMs: number;
  /** Goes back with the next request of the same kind; this client does it by itself. */
  readonly receipt: string;
  /** Why a ticket was rejected. */
  readonly reason: TicketReason | undefined;
  readonly figures: Figures;
  /** The HTTP status; 0 where there was no answer. */
  readonly status: number;
  /** Of `admit`, `resume`, `hold` and `run`: the key that was asked for. Ask again with it. */
  key = "";

  constructor(told: Told) {
    const detail = told.detail ?? "";
    super([told.code, told.reason, detail].filter(Boolean).join(": "), { cause: told.cause });
    this.name = new.target.name;
    this.code = told.code;
    this.scope = told.scope ?? (isCode(told.code) ? meanings[told.code].scope : "");
    this.detail = detail;
    this.remedy = told.remedy ?? "";
    this.decisionId = told.decisionId ?? "";
    this.retryAfterMs = told.retryAfterMs ?? 0;
    this.receipt = told.receipt ?? "";
    this.reason = told.reason;
    this.figures = told.figures ?? {};
    this.status = told.status ?? 0;
  }
}

/**
 * Not now: the same request, unchanged, may succeed later.
 *
 * This is a tempo, not a failure. Never write it to a status column: park the work as
 * `waiting_capacity` and ask again, not before `retryAfterMs`. And never run the work outside a sandbox
 * because of it: the gate said when, not how else.
 */
export class NotNow extends PlimsollError {
  override readonly kind = "not_now";
}

/**
 * The caller's patience ended before its turn came. The place in the queue is kept, unless the caller
 * asked to give it up: `resume(error.key)` goes on with it, `release(error.key)` gives it back. It is no
 * refusal; park the work as `waiting_capacity`.
 */
export class StillWaiting extends NotNow {
  readonly waiting: Waiting;
  readonly placeKept: boolean;

  constructor(waiting: Waiting, placeKept: boolean) {
    const { code, decision_id, retry_after_ms, receipt, ...figures } = waiting;
    super({
      code,
      detail: stillWaitingFor(waiting),
      decisionId: decision_id,
      retryAfterMs: retry_after_ms,
      receipt,
      figures,
      status: 202,
    });
    this.waiting = waiting;
    this.placeKept = placeKept;
    this.key = waiting.key;
  }
}

function stillWaitingFor(w: Waiting): string {
  const place = w.position ? `, position ${w.position}` : "";
  return `no ${w.waiting_for} yet${place}${w.pool ? ` in pool ${w.pool}` : ""}`;
}

/**
 * The request waited in the queue as long as it was willing to, by its `max_queue_age_ms`: its place is
 * gone. Ask anew for another one. It is no failure of the work: see {@link NotNow}.
 */
export class QueueTimeout extends NotNow {}

/**
 * No replica answered. Nobody knows what became of the request; asking again with the same key is safe.
 * It is no failure of the work: see {@link NotNow}.
 */
export class Unreachable extends NotNow {
  /** The replica that was asked last. */
  readonly url: string;
  /** Whether the request may have been taken up all the same. */
  readonly heard: boolean;

  constructor(url: string, cause: unknown, heard = true) {
    super({ code: "", detail: `no answer from ${url}: ${words(cause)}`, cause });
    this.url = url;
    this.heard = heard;
  }

  /** The same of a request that another address may have taken up. */
  asHeard(): Unreachable {
    return new Unreachable(this.url, this.cause);
  }
}

/** What an error says, with what lies under it: fetch hides the reason there. */
export function words(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const below = error.cause === undefined ? "" : words(error.cause);
  return below && below !== error.message ? `${error.message}: ${below}` : error.message;
}

/** A rule stands against this caller: its token, its role, its quota. Waiting alone changes nothing. */
export class NotAllowed extends PlimsollError {
  override readonly kind = "not_allowed";
}

/** Waiting will not change the answer: the request must change. */
export class Never extends PlimsollError {
  override readonly kind = "never";
}

/** Nothing boots on this ticket: `reason` says why. A ticket that is rejected stays rejected. */
export class TicketRejected extends Never {}

/** A fault of the server, or of what stands before it; see the server's log by the decision id. */
export class Internal extends PlimsollError {
  override readonly kind = "internal";
}

/** Makes the error of the class that a code belongs to. */
export function refusal(told: Told & { readonly code: Code }): PlimsollError {
  if (told.code === "queue_timeout") return new QueueTimeout(told);
  if (told.code === "ticket_rejected") return new TicketRejected(told);
  switch (meanings[told.code].kind) {
    case "not_now":
      return new NotNow(told);
    case "not_allowed":
      return new NotAllowed(told);
    case "never":
      return new Never(told);
    case "internal":
      return new Internal(told);
  }
}

/**
 * Whether nobody knows what became of a call, so that another replica, or a later moment, may have the
 * answer.
 */
export function unanswered(error: unknown): error is NotNow {
  return error instanceof Unreachable || (error instanceof NotNow && error.code === "unavailable");
}

/**
 * Whether asking again is worth it. Out of patience in the queue is an end: only the caller knows
 * whether it wants a new place.
 */
export function worthAnotherTry(error: unknown): error is NotNow {
  return error instanceof NotNow && !(error instanceof QueueTimeout) && !(error instanceof StillWaiting);
}

/** A call that nobody heard: there was no connection for it. */
export function unheard(error: unknown): error is Unreachable {
  return error instanceof Unreachable && !error.heard;
}

/**
 * What was held is held no longer: its server said so, or was not heard of until its time had passed.
 * Stop what runs on it, for its slot is somebody else's. It is no failure of the work: park that as
 * `waiting_capacity` and ask anew.
 */
export class LeaseLost extends PlimsollError {
  override readonly kind = "lost";
  readonly admission: Admission;

  constructor(admission: Admission, why: string, cause?: unknown) {
    super({ code: "lost", detail: `the admission of key ${admission.key} is over: ${why}`, cause });
    this.admission = admission;
    this.key = admission.key;
  }
}

/**
 * What a replica could not be told to release. It lapses by itself when its time has passed unheard;
 * until then it holds what it holds.
 */
export class NotReleased extends PlimsollError {
  override readonly kind = "not_released";

  constructor(key: string, cause: unknown) {
    super({ code: "not_released", detail: `key ${key} lapses by itself: ${words(cause)}`, cause });
    this.key = key;
  }
}
