/// <reference lib="esnext.disposable" preserve="true" />
import { Backoff, type Policy, toMs, toNs } from "./backoff.js";
import { type Clock, passOn, realClock, sleep } from "./clock.js";
import {
  Internal,
  NotReleased,
  type NotNow,
  PlimsollError,
  StillWaiting,
  unanswered,
  worthAnotherTry,
} from "./errors.js";
import { isOver, type Keeper, Lease } from "./lease.js";
import type { Ask, WaitOptions } from "./options.js";
import { byId, byKey, Seeker, type Wanted } from "./seek.js";
import { type Answer, type Call, type Fetch, Transport } from "./transport.js";
import type { Admission, Decision, DecisionList, Redemption, TicketRequest } from "./wire.js";

/** What changes a client while it is made. */
export interface ClientOptions {
  /** Sends instead of the global `fetch`; it must not give up within 30 s, for a long poll is held that long. */
  readonly fetch?: Fetch;
  /** Says who is calling; browsers send their own. */
  readonly userAgent?: string;
  /** The first window in which tries are spread; 250. */
  readonly baseMs?: number;
  /** The widest window; 8,000. */
  readonly capMs?: number;
  /** How long an answer may take, beyond what a long poll is held; 15,000. */
  readonly timeoutMs?: number;
  /**
   * Hears of what could not be given back in the background after some persistence: nobody waits for it,
   * so nobody else would know. By default it is written to the console.
   */
  readonly unreleased?: (error: NotReleased) => void;
  /** Random numbers below 2^64, for jitter. For tests. */
  readonly random?: () => bigint;
  /** Time. For tests. */
  readonly clock?: Clock;
}

/** Ends a call at once when its signal aborts; the reason is thrown. */
export interface CallOptions {
  readonly signal?: AbortSignal;
}

/** The pauses between two looks at something that ends by itself. */
const firstLookMs = 50;
const lastLookMs = 1_000;

/** Bounds how long an undoing is tried against replicas that do not answer. */
const persistenceMs = 10_000;
const persistWindowMs = 2_000;

/** How much later than its undoing a request may be heard that was cut off. */
const lateArrivalMs = 250;

/**
 * Speaks to one control plane: asks for admission, waits as long as its caller is willing to, and gives
 * back what was got.
 *
 *     const plimsoll = new Client("http://127.0.0.1:7070", token);
 *     await plimsoll.run({ class: "agent" }, async (lease) => {
 *       await boot(lease.ticket, lease.signal);
 *     });
 *
 * In refuse mode it asks again with full jitter on top of the server's appointment, never before it; in
 * queue mode it waits there for its turn. Asking twice is safe, for a key names one admission; without a
 * key a random one is made, the same over all tries.
 *
 * What is not a yes is thrown: see {@link PlimsollError}. A {@link NotNow} is a tempo, not a failure: never
 * write it to a status column, park the work as `waiting_capacity`, and never run it outside a sandbox
 * because of it.
 */
export class Client implements AsyncDisposable {
  readonly #transport: Transport;
  readonly #policy: Policy;
  readonly #unreleased: (error: NotReleased) => void;
  readonly #leases = new Set<Lease>();
  readonly #undoing = new Set<Promise<void>>();
  readonly #asking = new Set<AbortController>();
  #closed: DOMException | undefined;

  /**
   * Makes a client of the control plane at an address, "http://127.0.0.1:7070" for instance, or at any
   * of several. It connects to nothing yet.
   */
  constructor(address: string | readonly string[], token: string, options: ClientOptions = {}) {
    if (/[^!-~]/.test(token)) {
      throw new TypeError("the token holds blanks or characters that cannot stand in a header");
    }
    this.#policy = { baseMs: options.baseMs, capMs: options.capMs };
    this.#unreleased = options.unreleased ?? complain;
    this.#transport = new Transport({
      addresses: parseAddresses(address),
      token,
      fetch: options.fetch ?? ((url, init) => fetch(url, init)),
      clock: options.clock ?? realClock,
      random: options.random ?? random64,
      userAgent: options.userAgent ?? "plimsoll-typescript",
      timeoutMs: options.timeoutMs ?? 15_000,
    });
  }

  /**
   * Asks for one sandbox to be admitted, and waits for it within the caller's patience.
   *
   * @throws {NotNow} when patience ended: a tempo, not a failure. Never write it to a status column;
   * park the work as `waiting_capacity`, and never run it outside a sandbox because of it.
   */
  async admit(ask: Ask, options: WaitOptions = {}): Promise<Admission> {
    const key = ask.key ?? newKey();
    return this.#seek({ key, request: { ...ask, key } }, options, ask.key === undefined);
  }

  /**
   * Attempts a key that was asked for before: one that waits in the queue, or one whose boot was refused
   * for now, which is then placed anew.
   *
   * @throws {NotNow} as `admit` does.
   */
  async resume(key: string, options: WaitOptions = {}): Promise<Admission> {
    return this.#seek({ key }, options, false);
  }

  /**
   * Admits and holds: heartbeats go in the background until the lease is given back, at the end of its
   * block or by `release`.
   *
   *     await using lease = await plimsoll.hold({ class: "agent" });
   *
   * @throws {NotNow} as `admit` does.
   */
  async hold(ask: Ask, options: WaitOptions = {}): Promise<Lease> {
    const lease = this.#lease(await this.admit(ask, options), options.signal);
    if (lease.signal.aborted) {
      // the yes came a moment too late
      void this.#undo(lease.admission.key, () => lease.release());
      throw lease.signal.reason;
    }
    return lease;
  }

  /**
   * Holds an admission while `body` runs, and gives it back however that ends. `lease.signal` aborts
   * when it is lost, or when `options.signal` does: then `body` should end soon.
   *
   * @throws {NotNow} as `admit` does.
   * @throws {LeaseLost} when it was lost meanwhile, whatever `body` came to.
   * @throws {NotReleased} when no replica could be told that it is given back; after a `body` that threw,
   * its own error is thrown, and `unreleased` hears of this one.
   */
  async run<T>(ask: Ask, body: (lease: Lease) => Promise<T> | T, options: WaitOptions = {}): Promise<T> {
    const lease = await this.hold(ask, options);
    let result: T;
    try {
      result = await body(lease);
    } catch (error) {
      await this.#undo(lease.admission.key, () => lease.release());
      throw lease.lost ?? error;
    }
    await lease.release();
    if (lease.lost) throw lease.lost;
    return result;
  }

  /** Looks at one of the caller's own admissions, and changes nothing. */
  async get(key: string, { signal }: CallOptions = {}): Promise<Admission> {
    return admission(await this.#transport.do({ method: "GET", path: byKey(key) }, signal));
  }

  /** Looks at an admission by the server's name for it. */
  async getId(id: string, { signal }: CallOptions = {}): Promise<Admission> {
    return admission(await this.#transport.do({ method: "GET", path: byId(id) }, signal));
  }

  /**
   * Keeps an admission alive that has not booted yet and returns it with a fresh ticket; the old one is
   * worth nothing longer. Due every `heartbeat_ms`. Where no host answers for the slot (`audience` is
   * set) it is due for as long as the sandbox runs.
   */
  async heartbeat(key: string, { signal }: CallOptions = {}): Promise<Admission> {
    return admission(await this.#transport.do(beat(byKey(key)), signal));
  }

  /** Is `heartbeat` by the server's name for the admission, which tells any replica which host to ask. */
  async heartbeatId(id: string, { signal }: CallOptions = {}): Promise<Admission> {
    return admission(await this.#transport.do(beat(byId(id)), signal));
  }

  /**
   * Gives an admission back, whatever its state: it ends a sandbox that runs, and gives up a place in
   * the queue. It may be called twice. It returns when slot and memory are free, or throws when a
   * replica could not be reached a few times; what has been asked for goes on then. A {@link Never} with
   * code `not_found` says that nothing is held under this key.
   */
  async release(key: string, { signal }: CallOptions = {}): Promise<Admission> {
    const told = await this.#persist({ method: "DELETE", path: byKey(key) }, worthAnotherTry, signal);
    return this.#untilFree(admission(told), signal);
  }

  /**
   * Is `release` of what was admitted, and of nothing that its key stands for since: a call that arrives
   * late ends no later admission of the key.
   */
  async releaseAdmission(held: Admission, { signal }: CallOptions = {}): Promise<Admission> {
    const told = await this.#persist(deletion(held), worthAnotherTry, signal);
    return this.#untilFree(admission(told), signal);
  }

  /**
   * Gives a ticket up for a boot, once; see `plimsoll/substrate`, which also verifies it first. The same
   * instance again is the same redemption, so with one it is tried again for up to 10 s while no
   * replica answers.
   */
  async redeemTicket(request: TicketRequest, { signal }: CallOptions = {}): Promise<Redemption> {
    const call: Call = { method: "POST", path: "/v1/tickets:redeem", body: request };
    const answer = await (request.instance
      ? this.#persist(call, unanswered, signal)
      : this.#transport.do(call, signal));
    return body<Redemption>(answer, "id", "epoch");
  }

  /**
   * Explains one answer of the gate by its decision id: whose no it was, what would have made it a yes,
   * and what happened since. It is there for a day.
   */
  async explain(decisionId: string, { signal }: CallOptions = {}): Promise<Decision> {
    const path = `/v1/decisions/${encodeURIComponent(decisionId)}`;
    return body<Decision>(await this.#transport.do({ method: "GET", path }, signal), "id", "line");
  }

  /** Lists what a key was told, the newest first; what happened since stands only in a single one. */
  async decisions(key: string, { signal }: CallOptions = {}): Promise<readonly Decision[]> {
    const answer = await this.#transport.do({ method: "GET", path: "/v1/decisions", query: { key } }, signal);
    return body<DecisionList>(answer, "decisions").decisions;
  }

  /** Waits until all that was given up in the background is told, or could not be. */
  async settled(): Promise<void> {
    while (this.#undoing.size > 0) await Promise.all(this.#undoing);
  }

  /**
   * Ends all that goes on: asks that still wait are cancelled, the signals of leases abort, and what
   * is still held `graceMs` later is given back. It returns when that is told, or could not be; this
   * client asks for nothing any more then.
   */
  async close(graceMs = 2_000): Promise<void> {
    const reason = (this.#closed ??= new DOMException("the client was closed", "AbortError"));
    for (const asking of this.#asking) asking.abort(reason);
    for (const lease of this.#leases) lease.interrupt(reason);
    const over = new AbortController();
    void Promise.all(Array.from(this.#leases, (lease) => lease.gone)).then(() => {
      over.abort();
    });
    await sleep(this.#transport.clock, graceMs, over.signal).catch(() => undefined);
    for (const lease of this.#leases) void this.#undo(lease.admission.key, () => lease.release());
    await this.settled();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** How many leases are held at the moment. */
  get held(): number {
    return this.#leases.size;
  }

  /** Asks until there is an end, and leaves nothing behind that nobody will come back for. */
  async #seek(wanted: Wanted, options: WaitOptions, anonymous: boolean): Promise<Admission> {
    const ending = new AbortController();
    const end = passOn(options.signal, ending);
    this.#asking.add(ending);
    if (this.#closed) ending.abort(this.#closed);
    const seeker = new Seeker(this.#transport, wanted, this.#policy, { ...options, signal: ending.signal });
    try {
      return await seeker.seek();
    } catch (error) {
      if (error instanceof PlimsollError) error.key = wanted.key;
      if (seeker.left && unwanted(error, options, anonymous)) {
        const undone = this.#undo(wanted.key, () => this.#takeBack(wanted.key, seeker));
        if (error instanceof StillWaiting) await undone;
      }
      throw error;
    } finally {
      this.#asking.delete(ending);
      end();
    }
  }

  /** Releases a key; twice where nothing was found, for what was cut off may be heard late. */
  async #takeBack(key: string, seeker: Seeker): Promise<void> {
    await seeker.quiet();
    const call: Call = { method: "DELETE", path: byKey(key) };
    if (await this.#tell(call)) return;
    await sleep(this.#transport.clock, lateArrivalMs);
    await this.#tell(call);
  }

  /** Goes on in the background, whatever its caller's signal says. */
  #undo(key: string, undoing: () => Promise<void>): Promise<void> {
    const told = undoing().catch((error: unknown) => {
      this.#unreleased(error instanceof NotReleased ? error : new NotReleased(key, error));
    });
    this.#undoing.add(told);
    return told.finally(() => this.#undoing.delete(told));
  }

  /** Makes a call that gives back; undefined where nothing was there to give back, which is as good. */
  async #tell(call: Call): Promise<Admission | undefined> {
    try {
      return admission(await this.#persist(call, worthAnotherTry));
    } catch (error) {
      if (!isOver(error)) throw error;
      return undefined;
    }
  }

  async #untilFree(released: Admission, signal?: AbortSignal): Promise<Admission> {
    let now = released;
    for (let lookMs = firstLookMs; now.state === "releasing"; lookMs = Math.min(2 * lookMs, lastLookMs)) {
      await sleep(this.#transport.clock, lookMs, signal);
      try {
        // By its id: the key may name a new admission by now.
        now = admission(await this.#persist({ method: "GET", path: byId(now.id) }, worthAnotherTry, signal));
      } catch (error) {
        if (!isOver(error)) throw error;
        return { ...now, state: "released" }; // its host alone recorded it, and has forgotten it since
      }
    }
    return now;
  }

  /** Makes an idempotent call, and makes it again when an error is worth that. */
  async #persist(
    call: Call,
    worth: (error: unknown) => error is NotNow,
    signal?: AbortSignal,
  ): Promise<Answer> {
    const { clock, random } = this.#transport;
    const { baseMs, capMs = persistWindowMs } = this.#policy;
    const policy = { baseMs, capMs: Math.min(capMs, persistWindowMs), deadlineMs: persistenceMs };
    const pacer = new Backoff(policy, toNs(clock.now()));
    const deadline = clock.now() + persistenceMs;
    for (;;) {
      try {
        return await this.#transport.do(call, signal);
      } catch (error) {
        if (!worth(error)) throw error;
        const outcome = { status: 503, retryMs: error.retryAfterMs };
        const { verdict, delayNs } = pacer.next(toNs(clock.now()), outcome, random(), clock.wall());
        if (verdict !== "retry") throw error;
        await sleep(clock, toMs(delayNs), signal);
        await this.#transport.permit(error, deadline, signal);
      }
    }
  }

  #lease(held: Admission, signal?: AbortSignal): Lease {
    const { clock } = this.#transport;
    const keeper: Keeper = {
      clock,
      heartbeat: (id, bound) => this.heartbeatId(id, { signal: bound }),
      look: (id, bound) => this.getId(id, { signal: bound }),
      permitted: (error) => this.#transport.permitted(error),
      giveBack: (last) => this.#giveBack(last),
      done: (lease) => this.#leases.delete(lease),
    };
    const lease = new Lease(keeper, held, signal);
    this.#leases.add(lease);
    if (this.#closed) lease.interrupt(this.#closed);
    return lease;
  }

  /** Releases what was held, and waits until it is free, if that does not take long. */
  async #giveBack(held: Admission): Promise<void> {
    const told = await this.#tell(deletion(held));
    if (told?.state !== "releasing") return;
    const enough = new AbortController();
    const callOff = this.#transport.clock.after(persistenceMs, () => {
      enough.abort();
    });
    // It is told; whoever ends what runs has the rest to do.
    await this.#untilFree(told, enough.signal).catch(() => undefined);
    callOff();
  }
}

/**
 * Whether nobody will come back for what an ask left at the server: its caller is gone, or gives its
 * place up, or its key was made here.
 */
function unwanted(error: unknown, options: WaitOptions, anonymous: boolean): boolean {
  if (error instanceof StillWaiting) return !error.placeKept;
  if (error instanceof PlimsollError) return anonymous;
  return !options.keepPlace;
}

function parseAddresses(address: string | readonly string[]): URL[] {
  const all = (typeof address === "string" ? address.split(",") : address).map((one) =>
    parseAddress(one.trim()),
  );
  if (all.length === 0) throw new TypeError("the server has no address");
  return all;
}

function parseAddress(address: string): URL {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || !url.host) {
    throw new TypeError(
      `the server's address ${JSON.stringify(address)} must begin with http:// or https:// and name a host`,
    );
  }
  if (url.username || url.password) {
    throw new TypeError(`the address of ${url.host} holds a user's name or password: give a token instead`);
  }
  url.search = url.hash = "";
  return url;
}

const beat = (path: string): Call => ({ method: "POST", path: `${path}/heartbeat`, keyed: true });

/** By its id: of a class that hosts alone record every admission has the same epoch. */
function deletion({ id, epoch }: Admission): Call {
  return { method: "DELETE", path: byId(id), query: { epoch: String(epoch) } };
}

function admission(answer: Answer): Admission {
  return body<Admission>(answer, "id", "state");
}

/** Takes an answer for what it should be, if it has what that always has. */
function body<T extends object>(answer: Answer, ...names: (keyof T & string)[]): T {
  const got = answer.body as T | null;
  if (typeof got === "object" && got !== null && names.every((name) => name in got)) return got;
  const detail = `the answer lacks ${names.join(" or ")}: is this a Plimsoll server?`;
  throw new Internal({ code: "", detail, status: answer.status });
}

const alphabet = "abcdefghijklmnopqrstuvwxyz234567";

/** Makes a key that nobody else has. */
export function newKey(): string {
  const letters = crypto.getRandomValues(new Uint8Array(26));
  return `k-${Array.from(letters, (n) => alphabet.charAt(n % alphabet.length)).join("")}`;
}

function random64(): bigint {
  return crypto.getRandomValues(new BigUint64Array(1))[0] ?? 0n;
}

function complain(error: NotReleased): void {
  console.error(`plimsoll: ${error.message}`);
}
