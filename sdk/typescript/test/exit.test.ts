// What a process holds is given back as it ends: by a signal, and because nothing is left to do.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import process from "node:process";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { Client } from "../src/index.js";
import { startStage } from "./stage.js";

const stage = await startStage();
after(() => stage[Symbol.asyncDispose]());
const [address = ""] = stage.note.addresses;
const client = new Client(address, stage.note.tokens.caller);
const begun = await fetch(`${stage.note.control}/begin`, {
  method: "POST",
  body: JSON.stringify({ name: "a yes at once" }),
});
assert.equal(begun.status, 200);

/** A program that holds, says so, and then does what its last lines say. */
const program = (key: string, last: string): string => `
  import { Client } from "${import.meta.resolve("../src/index.js")}";
  import { releaseOnExit } from "${import.meta.resolve("../src/node.js")}";
  const client = new Client(process.env.ADDRESS, process.env.TOKEN);
  releaseOnExit(client, { graceMs: 300 });
  const lease = await client.hold({ class: "${stage.note.class}", key: "${key}" });
  console.log("held");
  ${last}`;

interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
  readonly said: readonly string[];
}

function runs(text: string, signal?: NodeJS.Signals): Promise<Ended> {
  const env = { ...process.env, ADDRESS: address, TOKEN: stage.note.tokens.caller };
  const child = spawn(process.execPath, ["--input-type=module", "-e", text], {
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const said: string[] = [];
  createInterface(child.stdout).on("line", (line) => {
    if (said.push(line) === 1 && signal) child.kill(signal);
  });
  return new Promise((resolve) => {
    child.on("close", (code, by) => {
      resolve({ code, signal: by, said });
    });
  });
}

const forever = "setInterval(() => undefined, 1000);";
const polite = `lease.signal.addEventListener("abort", () => console.log("told"));`;

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  test(`at ${signal} work is told, what is held is given back, and the process ends by it`, async () => {
    const ended = await runs(program(signal, polite + forever), signal);
    assert.deepEqual(ended, { code: null, signal, said: ["held", "told"] });
    assert.equal((await client.get(signal)).state, "released");
  });
}

test("work that ends within the grace gives back by itself", async () => {
  const body = `client.run({ class: "${stage.note.class}", key: "within" }, ({ signal }) => new Promise((done) => {
    console.log("runs"); signal.addEventListener("abort", () => setTimeout(() => { console.log("cleaned up"); done(); }, 50));
  })).then(() => console.log("ended"));`;
  const ended = await runs(program("beside", body + forever).replace(`console.log("held");`, ""), "SIGTERM");
  assert.deepEqual(ended.said, ["runs", "cleaned up", "ended"]);
  assert.equal(ended.signal, "SIGTERM");
  assert.equal((await client.get("within")).state, "released");
  assert.equal((await client.get("beside")).state, "released");
});

test("a process with nothing left to do gives back what it holds", async () => {
  const ended = await runs(program("idle", ""));
  assert.deepEqual(ended, { code: 0, signal: null, said: ["held"] });
  assert.equal((await client.get("idle")).state, "released");
});
