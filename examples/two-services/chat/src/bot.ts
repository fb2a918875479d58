import { randomUUID } from "node:crypto";
import { type Client, LeaseLost, Never, NotAllowed, NotNow } from "plimsoll";
import type { Provider } from "./provider.js";
import { notNow } from "./words.js";

export interface BotOptions {
  readonly plimsoll: Client;
  readonly provider: Provider;
  /** How many browsers one person may have at once: the chat's own rule, which the gate knows nothing of. */
  readonly perPerson?: number;
  /** How long a browser runs. */
  readonly runMs?: number;
  /** How the other services on the account are called to people. */
  readonly others?: string;
}

/** What a person is told. */
export interface Reply {
  readonly text: string;
  /** Whether a browser did run. There is no "failed" for want of room: it is then simply not yet done. */
  readonly done: boolean;
}

/** How long a person is kept waiting for a yes. */
const patienceMs = 1_500;

/** Opens a browser for whoever asks, if there is room now; else it says why there is not, and when there is. */
export class Bot {
  readonly #options: Required<BotOptions>;
  /** person -> browsers that run for them */
  readonly #open = new Map<string, number>();

  constructor(options: BotOptions) {
    this.#options = { perPerson: 2, runMs: 10_000, others: "CI", ...options };
  }

  async browse(person: string, page: string): Promise<Reply> {
    const { perPerson } = this.#options;
    const open = this.#open.get(person) ?? 0;
    if (open >= perPerson) {
      return {
        text: `you have ${open} browsers open, and ${perPerson} are the most for one person`,
        done: false,
      };
    }
    this.#open.set(person, open + 1);
    try {
      return await this.#ask(page);
    } finally {
      const left = (this.#open.get(person) ?? 1) - 1;
      if (left > 0) this.#open.set(person, left);
      else this.#open.delete(person);
    }
  }

  async #ask(page: string): Promise<Reply> {
    const { plimsoll, provider, runMs, others } = this.#options;
    try {
      await plimsoll.run(
        { class: "chat-browser", mode: "refuse" },
        (lease) => provider.run(`chat-${randomUUID()}`, lease.ticket, runMs, lease.signal),
        { patienceMs },
      );
    } catch (error) {
      // Whatever it is: nothing was opened, and nothing is opened without the gate's yes.
      if (error instanceof NotNow) return { text: notNow(error, others), done: false };
      if (error instanceof Never || error instanceof NotAllowed) {
        return { text: `that cannot be done, and waiting will not help: ${error.message}`, done: false };
      }
      if (error instanceof LeaseLost) return { text: "the browser was taken away; ask again", done: false };
      if (error instanceof DOMException && error.name === "AbortError") {
        return { text: "I am about to be restarted; ask again in a moment", done: false };
      }
      throw error;
    }
    return { text: `I have looked at ${page}`, done: true };
  }
}
