import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import process from "node:process";
import { after, afterEach, before, test } from "node:test";
import { type Admission, Client, NotNow } from "plimsoll";
import { Bot, type Reply } from "../src/bot.js";
import { Provider } from "../src/provider.js";
import { notNow, roughly } from "../src/words.js";
import { Account, eventually, freePort, saysThat } from "./account.js";

const account = new Account();
const held: Admission[] = [];
let ci: Client;

before(async () => {
  await account.start();
  ci = new Client(account.server, account.token("ci"));
});

afterEach(async () => {
  for (const admission of held.splice(0)) await ci.releaseAdmission(admission);
  await eventually("all slots to be free", async () => (await account.busy("browser")) === 0);
});

after(async () => {
  await account.stop();
  account.remove();
});

/** The CI takes as many browsers as it can get. */
async function ciTakes(n: number): Promise<void> {
  for (let i = 0; i < n; i++) {
    held.push(await ci.admit({ class: "ci-browser", mode: "refuse" }, { patienceMs: 0 }));
  }
  await assert.rejects(ci.admit({ class: "ci-browser", mode: "refuse" }, { patienceMs: 0 }), NotNow);
}

/** A bot, and how many requests it made of the gate. */
function newBot(runMs: number): { bot: Bot; asked: () => number } {
  let asked = 0;
  const plimsoll = new Client(account.server, account.token("chat"), {
    fetch: (url, init) => {
      asked++;
      return fetch(url, init);
    },
  });
  const bot = new Bot({ plimsoll, provider: new Provider(account.provider), runMs });
  return { bot, asked: () => asked };
}

test("a gate that is away is a tempo, too, and nothing runs without it", async () => {
  const { boots } = await account.count();
  const plimsoll = new Client(`http://127.0.0.1:${await freePort()}`, "token", {
    unreleased: () => undefined, // it is told, after ten seconds in which the other tests run
  });
  const bot = new Bot({ plimsoll, provider: new Provider(account.provider) });
  const reply = await bot.browse("ana", "one.example");
  assert.match(reply.text, /^nobody can say at the moment whether there is room; ask again in about/);
  assert.equal(reply.done, false);
  assert.equal((await account.count()).boots, boots);
});

test("on the busiest day the chat still gets its share, and then says whose the rest is", async () => {
  await ciTakes(4);
  const { bot } = newBot(3_000);
  const open = [bot.browse("ana", "one.example"), bot.browse("ben", "two.example")];
  await eventually("two browsers to run", async () => (await account.count()).running === 2);
  const refused = await bot.browse("cora", "three.example");
  assert.match(
    refused.text,
    /^all 6 browser slots are busy \(4 CI, 2 chat\); the next frees in about \d+ (s|min)$/,
  );
  assert.equal(refused.done, false);
  for (const reply of await Promise.all(open)) assert.equal(reply.done, true, reply.text);
  const later = await newBot(50).bot.browse("cora", "three.example");
  assert.deepEqual<Reply>(later, { text: "I have looked at three.example", done: true });
  const { boots, at_limit } = await account.count();
  assert.deepEqual([boots, at_limit], [3, 0]);
});

test("one person's limit is the chat's own: the gate is not asked", async () => {
  const { bot, asked } = newBot(1_500);
  const open = [bot.browse("ana", "one.example"), bot.browse("ana", "two.example")];
  await eventually("two browsers to run", async () => (await account.busy("browser")) === 2);
  const before = asked();
  const refused = await bot.browse("ana", "three.example");
  assert.deepEqual<Reply>(refused, {
    text: "you have 2 browsers open, and 2 are the most for one person",
    done: false,
  });
  assert.equal(asked(), before);
  for (const reply of await Promise.all(open)) assert.equal(reply.done, true, reply.text);
});

test("where the provider fails the slot comes back", async () => {
  const plimsoll = new Client(account.server, account.token("chat"));
  const bot = new Bot({ plimsoll, provider: new Provider(`http://127.0.0.1:${await freePort()}`) });
  await assert.rejects(bot.browse("ana", "one.example"));
  assert.equal(await account.busy("browser"), 0);
});

test("a wrong token is no tempo", async () => {
  const bot = new Bot({
    plimsoll: new Client(account.server, "nobodys"),
    provider: new Provider(account.provider),
  });
  assert.match((await bot.browse("ana", "one.example")).text, /^that cannot be done, .*unauthenticated/);
});

test("the service answers, and when it is told to end it gives back what it holds", async () => {
  const port = await freePort();
  const main = resolve(import.meta.dirname, "../src/main.js");
  const words = [
    `--server=${account.server}`,
    `--provider=${account.provider}`,
    `--token-file=${account.tokenFile("chat")}`,
  ];
  const chat = spawn(process.execPath, [main, ...words, `--listen=${port}`, "--seconds=60"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await saysThat(chat, "chat serves");
  const post = (body: string): Promise<Response> =>
    fetch(`http://127.0.0.1:${port}/`, { method: "POST", body });
  assert.equal((await post("not json")).status, 400);
  assert.equal((await post("{}")).status, 400);
  const told = post(JSON.stringify({ person: "ana", page: "one.example" })).then(
    (answer) => answer.text(),
    () => "cut off",
  );
  await eventually("its browser to run", async () => (await account.count()).running === 1);
  const ended = once(chat, "exit");
  chat.kill("SIGTERM");
  const [, signal] = (await ended) as [number | null, string | null];
  assert.equal(signal, "SIGTERM");
  assert.match(await told, /about to be restarted|cut off/); // its reply may come too late for the wire
  assert.deepEqual([(await account.count()).running, await account.busy("browser")], [0, 0]);
});

test("words", () => {
  assert.deepEqual([10, 1_499, 40_000, 89_400, 125_000].map(roughly), [
    "1 s",
    "1 s",
    "40 s",
    "89 s",
    "2 min",
  ]);
  const figures = {
    pool: "browser",
    pool_busy: 6,
    cap: 6,
    share: { consumer: "chat", held: 2, reserved: 2 },
  };
  const no = new NotNow({ code: "pool_full", retryAfterMs: 40_000, figures });
  assert.equal(notNow(no, "CI"), "all 6 browser slots are busy (4 CI, 2 chat); the next frees in about 40 s");
});
