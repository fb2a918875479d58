import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";

const twoServices = resolve(import.meta.dirname, "../../..");

/** Finds a port of this machine that nobody listens at. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("a port was expected");
  return address.port;
}

/** Waits for the line by which a process says that it is up. */
export async function saysThat(child: ChildProcess, words: string): Promise<string> {
  if (!child.stdout) throw new Error("its output is not at hand");
  for await (const line of createInterface(child.stdout)) if (line.includes(words)) return line;
  throw new Error(`it ended without a word of ${words}`);
}

/** What the provider counts. */
interface Count {
  readonly boots: number;
  readonly running: number;
  readonly at_limit: number;
}

interface Pool {
  readonly name: string;
  readonly busy: number;
}

/** Plimsoll and the provider, by `try`, in a folder and at ports of their own. */
export class Account {
  readonly folder = mkdtempSync(join(tmpdir(), "account-"));
  server = "";
  provider = "";
  #child: ChildProcess | undefined;

  async start(): Promise<void> {
    const [listen, provider] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
    this.server = `http://${listen}`;
    this.provider = `http://${provider}`;
    this.#child = spawn(join(twoServices, "try"), [this.folder], {
      env: { ...process.env, LISTEN: listen, PROVIDER_LISTEN: provider },
      stdio: ["pipe", "pipe", "inherit"],
    });
    await saysThat(this.#child, "the account is up");
  }

  async stop(): Promise<void> {
    const child = this.#child;
    if (!child) return;
    this.#child = undefined;
    child.stdin?.end();
    await once(child, "exit");
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  tokenFile(consumer: string): string {
    return join(this.folder, `${consumer}.token`);
  }

  token(consumer: string): string {
    return readFileSync(this.tokenFile(consumer), "utf8").trim();
  }

  async count(): Promise<Count> {
    return (await (await fetch(`${this.provider}/account`)).json()) as Count;
  }

  /** How many slots of a pool are held. */
  async busy(pool: string): Promise<number> {
    const headers = { Authorization: `Bearer ${this.token("chat")}` };
    const { pools } = (await (await fetch(`${this.server}/v1/pools`, { headers })).json()) as {
      pools: Pool[];
    };
    return pools.find(({ name }) => name === pool)?.busy ?? -1;
  }
}

export async function eventually(what: string, ok: () => Promise<boolean> | boolean): Promise<void> {
  for (const end = Date.now() + 20_000; !(await ok());) {
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
    await new Promise((wake) => setTimeout(wake, 20));
  }
}
