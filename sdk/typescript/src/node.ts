import type { Client } from "./client.js";

/** What is used of Node's process, so that these types need no others. */
interface NodeProcess {
  readonly pid: number;
  kill(pid: number, signal: EndingSignal): void;
  on(event: EndingSignal | "beforeExit", then: (signal: EndingSignal) => void): void;
  off(event: EndingSignal | "beforeExit", then: (signal: EndingSignal) => void): void;
}

/** The signals by which a process is asked to end. */
export type EndingSignal = "SIGHUP" | "SIGINT" | "SIGQUIT" | "SIGTERM";

/** How what is held is given back as a process ends. */
export interface ReleaseOnExitOptions {
  /** The signals that end the process; SIGINT and SIGTERM. */
  readonly signals?: readonly EndingSignal[];
  /** How long work on a lease may take to end by itself once its signal aborts; 2,000. */
  readonly graceMs?: number;
}

/**
 * Gives back what a client still holds when this process ends: by a signal, or because nothing is left
 * to do. The signals of leases abort first; then, at the latest after the grace, all is given back, and
 * the process ends by the signal that it got. A second signal ends it at once.
 *
 * `process.exit` gives nothing back, for nothing may be awaited there; what is held then ends when its
 * time has passed.
 *
 * @returns what takes this back.
 */
export function releaseOnExit(client: Client, options: ReleaseOnExitOptions = {}): () => void {
  const { process } = globalThis as unknown as { readonly process: NodeProcess };
  const signals = options.signals ?? (["SIGINT", "SIGTERM"] as const);
  const end = (signal: EndingSignal): void => {
    takeBack();
    void client.close(options.graceMs).finally(() => {
      process.kill(process.pid, signal);
    });
  };
  const idle = (): void => {
    if (client.held > 0) void client.close(0); // nobody is there who could end by itself
  };
  const takeBack = (): void => {
    for (const signal of signals) process.off(signal, end);
    process.off("beforeExit", idle);
  };
  for (const signal of signals) process.on(signal, end);
  process.on("beforeExit", idle);
  return takeBack;
}
