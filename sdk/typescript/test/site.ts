// A site of one origin: a page that has the built package, and below it the addresses of stages, as the
// proxy in front of an application would have the API.
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import process from "node:process";
import type { Done, Work } from "./inbrowser.js";
import type { Note, Scenario } from "./player.js";
import type { Stage } from "./stage.js";

/** One part of the site's work: a stage for it, and what is played there. */
export interface Part {
  readonly stage: Stage;
  readonly scenarios: readonly Scenario[];
}

const html = `<!doctype html><meta charset="utf-8"><title>plimsoll</title><script type="module" src="/test/inbrowser.js?as=page"></script>`;

/** A page needs no more than this allows. */
const policy = "default-src 'none'; script-src 'self'; worker-src 'self'; connect-src 'self'";

export class Site {
  readonly #parts: ReadonlyMap<string, Part>;
  readonly #done = new Map<string, (done: Done) => void>();
  readonly #server: Server;

  constructor(parts: ReadonlyMap<string, Part>) {
    this.#parts = parts;
    this.#server = createServer((asked, answer) => {
      // On a connection that was used before a browser would ask again by itself.
      answer.shouldKeepAlive = false;
      this.#serve(asked, answer).catch((error: unknown) => {
        answer.writeHead(500).end(String(error));
      });
    });
  }

  async start(): Promise<string> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** What comes of a part. */
  done(name: string): Promise<Done> {
    return new Promise((resolve) => this.#done.set(name, resolve));
  }

  async #serve(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
    const url = new URL(asked.url ?? "", "http://site");
    const [, first = "", second = "", ...rest] = url.pathname.split("/");
    const part = this.#parts.get(second);
    if (first === "via" && part) {
      pass(asked, answer, upstream(part.stage.note, rest.shift() ?? "") + `/${rest.join("/")}${url.search}`);
    } else if (first === "work" && part) {
      send(answer, "application/json", JSON.stringify(work(second, part)));
    } else if (first === "done") {
      this.#done.get(second)?.(JSON.parse(await all(asked)) as Done);
      answer.writeHead(204).end();
    } else if (first === "src" || first === "test") {
      send(
        answer,
        "text/javascript",
        await readFile(join(process.cwd(), first === "src" ? "dist" : "build/test", second)),
      );
    } else if (first === "") {
      send(answer, "text/html", html);
    } else {
      answer.writeHead(404).end();
    }
  }
}

function work(name: string, { stage: { note }, scenarios }: Part): Work {
  const via = `/via/${name}`;
  return { note: { ...note, addresses: [`${via}/0`, `${via}/1`], control: `${via}/control` }, scenarios };
}

function upstream({ addresses, control }: Note, at: string): string {
  return at === "control" ? control : (addresses[Number(at)] ?? "");
}

function send(answer: ServerResponse, kind: string, body: string | Buffer): void {
  answer.writeHead(200, { "Content-Type": kind, "Content-Security-Policy": policy }).end(body);
}

/** Passes a request on. What is lost there is lost here. */
function pass(asked: IncomingMessage, answer: ServerResponse, to: string): void {
  const headers = { ...asked.headers, connection: "close" };
  const on = request(to, { method: asked.method, headers, agent: false }, (got) => {
    answer.writeHead(got.statusCode ?? 502, { ...got.headers, connection: "close" });
    got.on("error", () => answer.destroy()).pipe(answer);
  });
  on.on("error", () => answer.destroy());
  answer.on("close", () => on.destroy());
  asked.pipe(on);
}

async function all(asked: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of asked) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}
