// Plays scenarios of sdk/vectors/scenarios.json on a stage (sdk/stage): it does what they say and says
// what it saw; the stage alone judges. Nothing of Node is in here, for browsers play them, too.
import {
  type Ask,
  Client,
  LeaseLost,
  PlimsollError,
  QueueTimeout,
  StillWaiting,
  Unreachable,
  type WaitOptions,
} from "../src/index.js";
import { AudienceKeys, Gate } from "../src/substrate.js";

/** What a stage prints when it is ready. */
export interface Note {
  readonly addresses: readonly string[];
  readonly control: string;
  readonly tokens: Readonly<Record<"caller" | "other" | "substrate" | "operator", string>>;
  readonly audience_keys: object;
  readonly class: string;
}

/** What a runner needs of a scenario; the rest is the stage's. */
export interface Scenario {
  readonly name: string;
  readonly do: "admit" | "resume" | "hold" | "release" | "redeem";
  readonly options: {
    readonly mode?: "refuse" | "queue";
    readonly patience_ms?: number;
    readonly base_ms?: number;
    readonly cap_ms?: number;
    readonly timeout_ms?: number;
    readonly watch?: boolean;
    readonly addresses?: number;
    readonly cancel_after_ms?: number;
    readonly hold_ms?: number;
    readonly body?: "return" | "throw" | "cancel";
    readonly give_up_place?: boolean;
    readonly keep_place?: boolean;
    readonly callers?: number;
    readonly key?: string;
    readonly class?: string;
    readonly tenant?: string;
    readonly instance?: string;
  };
}

/** What one caller saw. */
interface Result {
  outcome: string;
  code: string;
  reason: string;
  elapsed_ms: number;
  positions: number[];
  retries: { code: string; in_ms: number }[];
  attempts: number;
  since_first_refusal_ms: number | null;
  key: string;
  body_ran: boolean;
  error_text: string;
}

/** Plays one scenario, and returns what the stage finds wrong with it. */
export async function play(note: Note, scenario: Scenario): Promise<string[]> {
  const { ticket } = (await post(note, "/begin", { name: scenario.name })) as { readonly ticket?: string };
  const unreleased: string[] = [];
  const player = new Player(note, scenario, ticket, (error) => unreleased.push(error.message));
  const { callers = 1 } = scenario.options;
  const results = await Promise.all(Array.from({ length: callers }, () => player.act()));
  await player.client.settled();
  const seen = callers > 1 ? { results } : results[0];
  const verdict = (await post(note, "/check", { name: scenario.name, ...seen })) as {
    ok: boolean;
    faults?: string[];
  };
  const { faults = [] } = verdict;
  if (!verdict.ok && faults.length === 0) faults.push("not ok, without a fault");
  return [...faults, ...unreleased];
}

async function post(note: Note, path: string, body: object): Promise<unknown> {
  const init = {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  const response = await fetch(note.control + path, init);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

class Player {
  readonly client: Client;
  readonly #note: Note;
  readonly #scenario: Scenario;
  readonly #ticket: string | undefined;

  constructor(
    note: Note,
    scenario: Scenario,
    ticket: string | undefined,
    unreleased: (error: Error) => void,
  ) {
    const { addresses = 1, base_ms = 0, cap_ms = 0, timeout_ms } = scenario.options;
    const token = scenario.do === "redeem" ? note.tokens.substrate : note.tokens.caller;
    this.#note = note;
    this.#scenario = scenario;
    this.#ticket = ticket;
    this.client = new Client(note.addresses.slice(0, addresses), token, {
      ...(timeout_ms && { timeoutMs: timeout_ms }),
      baseMs: base_ms,
      capMs: cap_ms || 8_000,
      unreleased,
    });
  }

  /** Is one caller. */
  async act(): Promise<Result> {
    const { cancel_after_ms: cancelAfterMs, key = "" } = this.#scenario.options;
    const stop = new AbortController();
    const timer = cancelAfterMs ? setTimeout(() => { stop.abort(); }, cancelAfterMs) : undefined; // prettier-ignore
    const result = empty(key);
    const began = performance.now();
    try {
      await this.#perform(result, stop);
      result.outcome = this.#scenario.do === "release" ? "released" : "admitted";
    } catch (error) {
      tell(result, error, stop.signal);
    }
    result.elapsed_ms = performance.now() - began;
    clearTimeout(timer);
    return result;
  }

  async #perform(result: Result, stop: AbortController): Promise<void> {
    const { mode, key = "", tenant, class: of = this.#note.class } = this.#scenario.options;
    const ask: Ask = { class: of, ...(key && { key }), ...(mode && { mode }), ...(tenant && { tenant }) };
    const options = this.#options(result, stop.signal);
    switch (this.#scenario.do) {
      case "admit":
        await this.client.admit(ask, options);
        return;
      case "resume":
        await this.client.resume(key, options);
        return;
      case "release":
        await this.client.release(key);
        return;
      case "hold":
        await this.client.run(
          ask,
          (lease) => {
            result.body_ran = true;
            return this.#body(lease.signal, stop);
          },
          options,
        );
        return;
      case "redeem":
        await this.#redeem();
        result.body_ran = true;
    }
  }

  #options(result: Result, signal: AbortSignal): WaitOptions {
    const {
      patience_ms: patienceMs = 0,
      watch,
      keep_place = false,
      give_up_place = false,
    } = this.#scenario.options;
    return {
      signal,
      patienceMs,
      keepPlace: keep_place,
      giveUpPlace: give_up_place,
      retry: ({ code }, inMs) => result.retries.push({ code, in_ms: inMs }),
      admitted: ({ admission, attempts, sinceFirstRefusalMs }) => {
        result.key = admission.key;
        result.attempts = attempts;
        if (sinceFirstRefusalMs !== undefined)
          result.since_first_refusal_ms = Math.round(sinceFirstRefusalMs);
      },
      ...(watch && { progress: ({ position = 0 }) => result.positions.push(position) }),
    };
  }

  /** What runs while something is held. */
  async #body(signal: AbortSignal, stop: AbortController): Promise<void> {
    const { hold_ms: holdMs = 0, body } = this.#scenario.options;
    await new Promise<void>((resolve, reject) => {
      setTimeout(resolve, holdMs);
      signal.addEventListener("abort", () => {
        reject(signal.reason as Error);
      });
    });
    if (body === "throw") throw new BodyFailed("the body failed");
    if (body === "cancel") {
      stop.abort();
      signal.throwIfAborted();
    }
  }

  /** Is a provider that boots nothing without a yes. */
  async #redeem(): Promise<void> {
    const keys = await AudienceKeys.parse(JSON.stringify(this.#note.audience_keys));
    await new Gate(this.client, keys).redeem(this.#ticket, this.#scenario.options.instance ?? "");
  }
}

class BodyFailed extends Error {}

function empty(key: string): Result {
  const said = { outcome: "", code: "", reason: "", key, error_text: "", body_ran: false };
  return { ...said, elapsed_ms: 0, positions: [], retries: [], attempts: 0, since_first_refusal_ms: null };
}

/** Fills in how it ended. */
function tell(result: Result, error: unknown, signal: AbortSignal): void {
  result.outcome = outcomeOf(error, signal);
  result.error_text = error instanceof Error ? error.message : String(error);
  if (error instanceof PlimsollError) {
    result.code = error.code;
    result.reason = error.reason ?? "";
  }
}

function outcomeOf(error: unknown, signal: AbortSignal): string {
  if (error instanceof BodyFailed) return "admitted";
  if (error instanceof LeaseLost) return "lost";
  if (signal.aborted && error === signal.reason) return "canceled";
  if (error instanceof StillWaiting) return "still_waiting";
  if (error instanceof Unreachable) return "unreachable";
  if (error instanceof QueueTimeout) return "queue_timeout";
  return error instanceof PlimsollError ? error.kind : `a bug: ${String(error)}`;
}
