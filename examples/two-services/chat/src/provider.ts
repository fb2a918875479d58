/** A container as the provider tells of it. */
interface Container {
  readonly state: "running" | "exited";
}

const lookMs = 200;

/** The provider's API, as far as a chat needs it. */
export class Provider {
  readonly #address: string;

  constructor(address: string) {
    this.#address = address;
  }

  /**
   * Boots a container by a ticket and waits for its end. Without a ticket that the gate still takes the
   * provider boots nothing, and this throws.
   */
  async run(name: string, ticket: string, runMs: number, signal: AbortSignal): Promise<void> {
    const body = JSON.stringify({ ticket, run_ms: runMs });
    await this.#call("PUT", name, signal, body);
    try {
      while ((await this.#look(name, signal)).state === "running") await pause(lookMs, signal);
    } finally {
      // However this ends, the container does, and that before its slot is given back.
      await this.#call("DELETE", name, AbortSignal.timeout(5_000));
    }
  }

  async #look(name: string, signal: AbortSignal): Promise<Container> {
    return (await (await this.#call("GET", name, signal)).json()) as Container;
  }

  async #call(method: string, name: string, signal: AbortSignal, body?: string): Promise<Response> {
    const url = `${this.#address}/containers/${encodeURIComponent(name)}`;
    const answer = await fetch(url, { method, signal, ...(body === undefined ? {} : { body }) });
    if (!answer.ok) throw new Error(`the provider said ${answer.status}: ${await answer.text()}`);
    return answer;
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the signal's own reason
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
  });
}
