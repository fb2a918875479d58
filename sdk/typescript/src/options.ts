import type { NotNow } from "./errors.js";
import type { Admission, AdmissionRequest, Waiting } from "./wire.js";

/** What is asked for; without a key it gets a random one. */
export type Ask = Omit<AdmissionRequest, "key" | "receipt"> & {
  /** The caller's own name for one execution. Asking twice with one key is asking once. */
  readonly key?: string;
};

/** How a yes was come by. */
export interface Admitted {
  readonly admission: Admission;
  /** The calls that it took. */
  readonly attempts: number;
  /**
   * From the first refusal, or from the place in the queue, to the yes, over all attempts and by this
   * client's own clock; undefined where the first answer was yes.
   */
  readonly sinceFirstRefusalMs: number | undefined;
}

/** How a call waits. */
export interface WaitOptions {
  /** The caller's patience; 90,000. With 0 it asks once. */
  readonly patienceMs?: number;
  /**
   * Ends the wait at once: its reason is thrown. What was asked for is given back meanwhile, in the
   * background: {@link Client.settled} waits for that.
   */
  readonly signal?: AbortSignal;
  /** Cancelled, keep what was asked for, such as a place in the queue: `resume` goes on with it. */
  readonly keepPlace?: boolean;
  /** When patience ends in the queue, give the place back before that is thrown. */
  readonly giveUpPlace?: boolean;
  /**
   * Hears of the place in the queue, each time that the server tells it. With it the server is asked
   * every 5 s; without it, shortly before the turn that it tells.
   */
  readonly progress?: (place: Waiting) => void;
  /** Hears why this client is about to ask again, and when. Not called for waits in the queue. */
  readonly retry?: (error: NotNow, inMs: number) => void;
  /** Hears of the yes, and what it took. */
  readonly admitted?: (how: Admitted) => void;
}
