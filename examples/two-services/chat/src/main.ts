import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import process from "node:process";
import { parseArgs } from "node:util";
import { Client } from "plimsoll";
import { releaseOnExit } from "plimsoll/node";
import { Bot } from "./bot.js";
import { Provider } from "./provider.js";

const { values } = parseArgs({
  options: {
    server: { type: "string", default: "http://127.0.0.1:7070" },
    "token-file": { type: "string", default: "../two-services-data/chat.token" },
    provider: { type: "string", default: "http://127.0.0.1:7080" },
    listen: { type: "string", default: "7090" },
    seconds: { type: "string", default: "10" },
  },
});

const token = readFileSync(values["token-file"], "utf8").trim();
const plimsoll = new Client(values.server.split(","), token);
releaseOnExit(plimsoll);
const bot = new Bot({
  plimsoll,
  provider: new Provider(values.provider),
  runMs: Number(values.seconds) * 1_000,
});

/** POST / with {"person": "ana", "page": "example.org"}: the reply is what the bot says. */
async function serve(request: IncomingMessage): Promise<{ status: number; body: unknown }> {
  if (request.method !== "POST") return { status: 405, body: { text: "POST a message" } };
  let text = "";
  request.setEncoding("utf8");
  for await (const part of request) {
    text += String(part);
    if (text.length > 4_096) return { status: 413, body: { text: "that is too long" } };
  }
  const message: unknown = JSON.parse(text);
  if (!isMessage(message)) return { status: 400, body: { text: "send a person and a page" } };
  return { status: 200, body: await bot.browse(message.person, message.page) };
}

function isMessage(m: unknown): m is { person: string; page: string } {
  return (
    typeof m === "object" &&
    m !== null &&
    "person" in m &&
    "page" in m &&
    typeof m.person === "string" &&
    typeof m.page === "string"
  );
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "Content-Type": "application/json" });
  response.end(JSON.stringify(body));
}

const server = createServer((request, response) => {
  serve(request).then(
    ({ status, body }) => {
      answer(response, status, body);
    },
    (error: unknown) => {
      console.error(error);
      answer(response, error instanceof SyntaxError ? 400 : 500, { text: "I did not understand that" });
    },
  );
});
server.listen(Number(values.listen), "127.0.0.1", () => {
  process.stdout.write(`chat serves at http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});
