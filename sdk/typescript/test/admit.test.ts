import assert from "node:assert/strict";
import { inspect as show } from "node:util";
import { test } from "node:test";
import {
  Internal,
  Never,
  NotAllowed,
  NotNow,
  QueueTimeout,
  StillWaiting,
  Unreachable,
} from "../src/index.js";
import type { Admitted } from "../src/index.js";
import { json, lost, place, problem, type Seen, World, yes } from "./world.js";

const ask = { class: "agent" };

test("a yes", async () => {
  const world = new World();
  const client = world.client(({ body }) => yes(body["key"]));
  let how: Admitted | undefined;
  const got = await world.until(client.admit(ask, { admitted: (is) => (how = is) }));
  assert.match(got.key, /^k-[a-z2-7]{26}$/);
  assert.deepEqual(how, { admission: got, attempts: 1, sinceFirstRefusalMs: undefined });
  assert.equal(world.seen[0]?.headers.get("Authorization"), "Bearer secret-token");
});

test("refused, it comes back after its appointment with the receipt and the same key", async () => {
  const world = new World();
  const client = world.client(({ body }, nth) =>
    nth < 3 ? problem(503, "no_capacity", { retry_after_ms: 2000, receipt: `r${nth}` }) : yes(body["key"]),
  );
  const retries: number[] = [];
  let how: Admitted | undefined;
  await world.until(
    client.admit(ask, { retry: (_, inMs) => retries.push(inMs), admitted: (is) => (how = is) }),
  );
  assert.deepEqual(
    world.seen.map(({ at }) => Math.round(at)),
    [0, 2125, 4375],
  ); // half of 250, of 500 ms
  assert.deepEqual(retries.map(Math.round), [2125, 2250]);
  assert.deepEqual(
    world.seen.map(({ body }) => body["receipt"]),
    [undefined, "r1", "r2"],
  );
  assert.equal(new Set(world.seen.map(({ body }) => body["key"])).size, 1);
  assert.equal(how?.attempts, 3);
  assert.equal(Math.round(how.sinceFirstRefusalMs ?? -1), 4375);
});

test("patience ends before an appointment beyond it", async () => {
  const world = new World();
  const client = world.client(() =>
    problem(503, "pool_full", { retry_after_ms: 5000, pool: "ci", cap: 6, pool_busy: 6 }),
  );
  const error = await world.failure(client.admit(ask, { patienceMs: 4000 }));
  assert.ok(error instanceof NotNow);
  assert.equal(error.retryAfterMs, 5000);
  assert.deepEqual(error.figures, { pool: "ci", cap: 6, pool_busy: 6 });
  assert.equal(world.now, 0, "it waited for nothing");
});

test("no patience asks once", async () => {
  const world = new World();
  const client = world.client(() => problem(503, "no_capacity"));
  assert.ok((await world.failure(client.admit(ask, { patienceMs: 0 }))) instanceof NotNow);
  assert.equal(world.seen.length, 1);
});

test("what waiting does not change is not asked again", async () => {
  const all: [number, string, unknown][] = [
    [403, "tenant_over_quota", NotAllowed],
    [422, "key_conflict", Never],
    [500, "internal", Internal],
    [503, "queue_timeout", QueueTimeout],
  ];
  for (const [status, code, kind] of all) {
    const world = new World();
    const error = await world.failure(world.client(() => problem(status, code)).admit(ask));
    assert.ok(error instanceof (kind as typeof NotAllowed), code);
    assert.equal(world.seen.length, 1, code);
  }
});

test("T74: a 429 with Retry-After is a rule of a proxy, and not asked again", async () => {
  const world = new World();
  const server = () => new Response("slow down", { status: 429, headers: { "Retry-After": "1" } });
  const error = await world.failure(world.client(server).admit(ask));
  assert.ok(error instanceof NotAllowed);
  assert.equal(world.seen.length, 1);
});

test("garbage for a yes is an error, and no admission is left behind", async () => {
  const world = new World();
  const client = world.client(({ method }) =>
    method === "POST" ? new Response("<html>") : problem(404, "not_found"),
  );
  assert.ok((await world.failure(client.admit(ask))) instanceof Internal);
  await world.until(client.settled());
  assert.equal(world.seen.at(-1)?.method, "DELETE");
  assert.deepEqual(world.unreleased, []);
});

test("lost answers are asked again under the same key", async () => {
  const world = new World();
  const client = world.client(({ body }, nth) => (nth < 3 ? lost() : yes(body["key"])));
  await world.until(client.admit(ask));
  assert.equal(new Set(world.seen.map(({ body }) => body["key"])).size, 1);
});

test("a server that never answers is unreachable after 15 s", async () => {
  const world = new World();
  const client = world.client(() => new Promise<never>(() => undefined));
  const error = await world.failure(client.admit({ ...ask, key: "mine" }, { patienceMs: 0 }));
  assert.ok(error instanceof Unreachable);
  assert.equal(world.now, 15_000);
  assert.ok(!show(error).includes("secret-token"));
});

test("in the queue it stays away until its turn is near, and then holds on", async () => {
  const world = new World();
  const client = world.client(async ({ path, query }, nth) => {
    if (nth === 1) return place("mine", { position: 9, poll_after_ms: 40_000 });
    assert.equal(path, "/v1/admissions/mine/attempt");
    assert.equal(query.get("wait_ms"), "30000");
    await world.sleep(30_000);
    return nth === 2 ? place("mine", { position: 1 }) : yes("mine");
  });
  let how: Admitted | undefined;
  await world.until(
    client.admit(
      { ...ask, key: "mine", mode: "queue" },
      { patienceMs: 200_000, admitted: (is) => (how = is) },
    ),
  );
  assert.deepEqual(
    world.seen.map(({ at }) => at),
    [0, 40_000, 70_000],
  );
  assert.equal(how?.sinceFirstRefusalMs, 100_000);
});

test("somebody who watches the position is told every 5 s", async () => {
  const world = new World();
  const client = world.client(async ({ query }, nth) => {
    if (nth > 1) await world.sleep(Number(query.get("wait_ms")));
    return nth < 4 ? place("mine", { position: 5 - nth, poll_after_ms: 40_000 }) : yes("mine");
  });
  const positions: unknown[] = [];
  await world.until(
    client.admit({ ...ask, mode: "queue" }, { progress: (is) => positions.push(is.position) }),
  );
  assert.deepEqual(positions, [4, 3, 2]);
  assert.deepEqual(
    world.seen.map(({ at }) => at),
    [0, 0, 5000, 10_000],
  );
});

test("polls that come back early are not asked again at once", async () => {
  const world = new World();
  const client = world.client((_, nth) => (nth < 6 ? place("mine") : yes("mine")));
  await world.until(client.admit({ ...ask, mode: "queue" }));
  const at = world.seen.map((seen) => Math.round(seen.at));
  assert.deepEqual(at, [0, 0, 125, 375, 875, 1375]); // half of 250, 500 and then 1,000 ms
});

test("the end of patience keeps the place", async () => {
  const world = new World();
  const client = world.client(async ({ query }, nth) => {
    if (nth > 1) await world.sleep(Number(query.get("wait_ms")));
    return place("mine", { position: 4, pool: "ci" });
  });
  const error = await world.failure(
    client.admit({ ...ask, key: "mine", mode: "queue" }, { patienceMs: 45_000 }),
  );
  assert.ok(error instanceof StillWaiting);
  assert.equal(error.placeKept, true);
  assert.equal(error.key, "mine");
  assert.match(error.message, /position 4 in pool ci/);
  await world.until(client.settled());
  assert.ok(!world.asked.some((line) => line.startsWith("DELETE")));
  assert.equal(world.now, 45_000);
});

test("the end of patience gives the place up where that is wanted", async () => {
  const world = new World();
  const client = world.client(({ method }) =>
    method === "DELETE" ? problem(404, "not_found") : place("mine"),
  );
  const error = await world.failure(
    client.admit({ ...ask, key: "mine", mode: "queue" }, { patienceMs: 0, giveUpPlace: true }),
  );
  assert.ok(error instanceof StillWaiting);
  assert.equal(error.placeKept, false);
  await world.until(client.settled());
  assert.equal(world.asked.at(-1), "DELETE /v1/admissions/mine");
});

test("T90: cancelled in the queue, it ends at once and gives the place back", async () => {
  const world = new World();
  const client = world.client(({ method, path }) => {
    if (method === "DELETE") return json(200, { id: "adm-1", state: "released" });
    return path.endsWith("/attempt") ? new Promise<never>(() => undefined) : place("mine");
  });
  const stop = new AbortController();
  void world.sleep(1000).then(() => {
    stop.abort(new Error("enough"));
  });
  const error = await world.failure(
    client.admit({ ...ask, key: "mine", mode: "queue" }, { signal: stop.signal }),
  );
  assert.equal((error as Error).message, "enough");
  assert.equal(world.now, 1000);
  assert.equal(world.seen[1]?.signal.aborted, true, "the long poll is hung up");
  await world.until(client.settled());
  assert.deepEqual(world.asked.slice(2), ["DELETE /v1/admissions/mine"]);
});

test("cancelled, it keeps its place where that is wanted", async () => {
  const world = new World();
  const client = world.client(({ path }) =>
    path.endsWith("/attempt") ? new Promise<never>(() => undefined) : place("mine"),
  );
  const stop = new AbortController();
  void world.sleep(1000).then(() => {
    stop.abort();
  });
  await world.failure(
    client.admit({ ...ask, key: "mine", mode: "queue" }, { signal: stop.signal, keepPlace: true }),
  );
  await world.until(client.settled());
  assert.equal(world.seen.length, 2);
});

test("cancelled while a post is out, what it comes to is given back after it", async () => {
  const world = new World();
  const client = world.client(async ({ method, body }) => {
    if (method === "DELETE") return json(200, { id: "adm-1", state: "released" });
    await world.sleep(500);
    return yes(body["key"]);
  });
  const stop = new AbortController();
  void world.sleep(100).then(() => {
    stop.abort();
  });
  await world.failure(client.admit({ ...ask, key: "mine" }, { signal: stop.signal }));
  assert.equal(world.now, 100);
  await world.until(client.settled());
  assert.deepEqual(
    world.seen.map(({ at }) => at),
    [0, 500],
  );
  assert.deepEqual(world.asked, ["POST /v1/admissions", "DELETE /v1/admissions/mine"]);
});

test("cancelled between refusals, nothing is left to give back", async () => {
  const world = new World();
  const client = world.client(() => problem(503, "pool_full", { retry_after_ms: 9000 }));
  const stop = new AbortController();
  void world.sleep(100).then(() => {
    stop.abort();
  });
  await world.failure(client.admit(ask, { signal: stop.signal }));
  await world.until(client.settled());
  assert.deepEqual(world.asked, ["POST /v1/admissions"]);
});

test("cancelled beforehand, nothing is asked", async () => {
  const world = new World();
  const client = world.client(({ body }) => yes(body["key"]));
  const error = await world.failure(client.admit(ask, { signal: AbortSignal.abort("no") }));
  assert.equal(error, "no");
  await world.until(client.settled());
  assert.deepEqual(world.asked, []);
});

test("what was cut off may be heard late, so it is given back twice", async () => {
  const world = new World();
  const client = world.client(({ method }) => (method === "DELETE" ? problem(404, "not_found") : lost()));
  const error = await world.failure(client.admit(ask, { patienceMs: 0 }));
  assert.ok(error instanceof Unreachable);
  await world.until(client.settled());
  const path = `DELETE /v1/admissions/${error.key}`;
  assert.deepEqual(world.asked, ["POST /v1/admissions", path, path]);
  assert.equal(world.now, 250);
});

test("an ask under a key of one's own that nobody answered is left alone", async () => {
  const world = new World();
  const client = world.client(() => lost());
  const error = await world.failure(client.admit({ ...ask, key: "mine" }, { patienceMs: 0 }));
  assert.equal((error as Unreachable).key, "mine");
  await world.until(client.settled());
  assert.equal(world.seen.length, 1);
});

test("a hook that throws ends the ask, and leaves nothing", async () => {
  const world = new World();
  const client = world.client(({ method, body }) =>
    method === "DELETE" ? problem(404, "not_found") : yes(body["key"]),
  );
  const admitted = () => {
    throw new RangeError("mine");
  };
  assert.ok((await world.failure(client.admit(ask, { admitted }))) instanceof RangeError);
  await world.until(client.settled());
  assert.equal(world.seen.at(-1)?.method, "DELETE");
});

test("where one address is down the next is asked, and kept", async () => {
  const world = new World();
  const server = ({ host, body }: Seen) => (host === "b" ? lost("ECONNREFUSED") : yes(body["key"]));
  const client = world.client(server, { addresses: "http://a, http://b", random: () => 1n }); // begins at b
  await world.until(client.admit(ask));
  await world.until(client.admit(ask));
  assert.deepEqual(
    world.seen.map(({ host }) => host),
    ["b", "a", "a"],
  );
});

test("what one address may have heard is given back, though the next one refuses connections", async () => {
  const world = new World();
  const server = ({ method, host }: Seen) => {
    if (method === "DELETE") return problem(404, "not_found");
    return lost(host === "a" ? "ECONNRESET" : "ECONNREFUSED");
  };
  const client = world.client(server, { addresses: "http://a,http://b" });
  const error = await world.failure(client.admit(ask, { patienceMs: 0 }));
  assert.ok(error instanceof Unreachable && error.heard);
  await world.until(client.settled());
  assert.equal(world.seen.at(-1)?.method, "DELETE");
});

test("what must not be done twice goes to the next address only if it cannot have been heard", async () => {
  for (const [code, hosts] of [
    ["ECONNREFUSED", ["a", "b"]],
    ["ECONNRESET", ["a"]],
  ] as const) {
    const world = new World();
    const client = world.client(() => lost(code), { addresses: "http://a,http://b" });
    await world.failure(client.redeemTicket({ ticket: "plm1.x" }));
    assert.deepEqual(
      world.seen.map(({ host }) => host),
      hosts,
      code,
    );
  }
});

test("in an outage many callers send ten retries and one a second", async () => {
  const world = new World();
  let up = false;
  const client = world.client(({ body }) => (up ? yes(body["key"]) : lost()));
  const all = Promise.all(Array.from({ length: 200 }, () => client.admit(ask)));
  void world.sleep(30_000).then(() => (up = true));
  await world.until(all);
  const before = world.seen.filter(({ at }) => at > 0 && at < 30_000).length;
  assert.ok(before >= 35 && before <= 10 + 30, `${before} retries in 30 s`);
  const last = world.seen.at(-1)?.at ?? 0;
  assert.ok(last < 33_000, `the last was admitted at ${last}`);
});
