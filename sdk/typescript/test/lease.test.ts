import assert from "node:assert/strict";
import { test } from "node:test";
import { type Client, LeaseLost, NotReleased, Unreachable } from "../src/index.js";
import { json, lost, problem, type Seen, type Server, World, yes } from "./world.js";

const ask = { class: "agent", key: "mine" };
const released = () => json(200, { id: "adm-1", key: "mine", state: "released", epoch: 7 });

/** A server that admits, releases, and leaves heartbeats to a test. */
function gate(beat: Server): Server {
  return (seen, nth) => {
    if (seen.method === "DELETE") return released();
    return seen.path.endsWith("/heartbeat") ? beat(seen, nth) : yes("mine");
  };
}

const beats = (world: World): Seen[] => world.seen.filter(({ path }) => path.endsWith("/heartbeat"));

test("held: a heartbeat when it is due, the newest ticket at hand, given back at the end", async () => {
  const world = new World();
  const client = world.client(gate((_, nth) => yes("mine", { ticket: `plm1.${nth}` })));
  const got = await world.until(
    client.run(ask, async (lease) => {
      assert.equal(lease.ticket, "plm1.x");
      await world.sleep(50_000);
      assert.equal(lease.ticket, "plm1.3");
      assert.equal(lease.signal.aborted, false);
      return "done";
    }),
  );
  assert.equal(got, "done");
  assert.deepEqual(
    beats(world).map(({ at }) => at),
    [20_000, 40_000],
  );
  assert.deepEqual(world.asked.slice(1, 2), ["POST /v1/admissions/id/adm-1/heartbeat"]);
  assert.equal(world.asked.at(-1), "DELETE /v1/admissions/id/adm-1");
  assert.equal(world.seen.at(-1)?.query.get("epoch"), "7");
  assert.equal(client.held, 0);
  await world.until(world.sleep(100_000));
  assert.equal(world.seen.length, 4, "nothing beats for what is given back");
});

test("a body that throws gives back, and throws its own error", async () => {
  const world = new World();
  const client = world.client(gate(() => yes("mine")));
  const error = await world.failure(
    client.run(ask, () => {
      throw new RangeError("mine");
    }),
  );
  assert.ok(error instanceof RangeError);
  assert.equal(world.seen.at(-1)?.method, "DELETE");
});

test("await using gives back at the end of its block", async () => {
  const world = new World();
  const client = world.client(gate(() => yes("mine")));
  await world.until(
    (async () => {
      await using lease = await client.hold(ask);
      assert.equal(lease.ticket, "plm1.x");
      await world.sleep(1000);
    })(),
  );
  assert.equal(world.seen.at(-1)?.method, "DELETE");
});

test("given back twice, it is told once", async () => {
  const world = new World();
  const client = world.client(gate(() => yes("mine")));
  const lease = await world.until(client.hold(ask));
  await world.until(Promise.all([lease.release(), lease.release()]));
  await world.until(lease.release());
  assert.equal(world.asked.filter((line) => line.startsWith("DELETE")).length, 1);
});

test("lost as soon as the server says that it is over", async () => {
  const ends = [
    () => problem(404, "not_found"),
    () => problem(403, "forbidden"),
    () => yes("mine", { state: "evicted" }),
  ];
  for (const end of ends) {
    const world = new World();
    const client = world.client(gate(end));
    await lostIn(world, client);
    assert.equal(world.now, 20_000);
  }
});

test("lost when its time has passed unheard, and asked for until then", async () => {
  const world = new World();
  const client = world.client(gate(() => lost()));
  const reason = await lostIn(world, client);
  assert.ok(reason.cause instanceof Unreachable);
  assert.ok(world.now >= 60_000 && world.now < 60_100, `${world.now}`);
  assert.ok(beats(world).length > 5);
  assert.equal(reason.kind, "lost");
});

test("a heartbeat that hangs does not outlive the lease's time", async () => {
  const world = new World();
  const client = world.client(gate(() => new Promise<never>(() => undefined)));
  await lostIn(world, client);
  assert.ok(world.now <= 60_100, `${world.now}`);
});

test("a heartbeat that was lost is made up for", async () => {
  const world = new World();
  let nth = 0;
  const client = world.client(gate(() => (++nth === 1 ? lost() : yes("mine"))));
  await world.until(
    client.run(ask, async (lease) => {
      await world.sleep(100_000);
      assert.equal(lease.signal.aborted, false);
    }),
  );
});

test("what runs on a host is looked at, and not lost by silence", async () => {
  const world = new World();
  const running = () =>
    yes("mine", { state: "running", host: "h-1", audience: undefined, heartbeat_ms: undefined });
  const client = world.client(gate((_, nth) => (nth === 2 ? running() : lost())));
  await world.until(
    client.run(ask, async (lease) => {
      await world.sleep(500_000);
      assert.equal(lease.signal.aborted, false);
    }),
  );
  assert.ok(beats(world).length > 20);
});

test("a sandbox that has ended on its host by itself is none that was lost", async () => {
  const world = new World();
  const onHost = { host: "h-1", audience: undefined };
  const client = world.client(({ method, path }) => {
    if (method === "DELETE") return released();
    if (path.endsWith("/heartbeat")) return problem(404, "not_found");
    return yes(
      "mine",
      method === "GET" ? { ...onHost, state: "released", started_at: "2026-09-08T12:00:01Z" } : onHost,
    );
  });
  const told = await world.until(
    client.run(ask, async (lease) => {
      await world.sleep(100_000);
      return lease.signal.aborted;
    }),
  );
  assert.equal(told, false);
  assert.equal(beats(world).length, 1);
});

test("cancelled, the body is told, and it is given back when the body ends", async () => {
  const world = new World();
  const client = world.client(gate(() => yes("mine")));
  const stop = new AbortController();
  void world.sleep(1000).then(() => {
    stop.abort("enough");
  });
  const body = async (signal: AbortSignal) => {
    assert.equal(await aborted(signal), "enough");
    await world.sleep(500);
    assert.equal(world.seen.length, 1, "it is held while the body ends");
  };
  await world.until(client.run(ask, (lease) => body(lease.signal), { signal: stop.signal }));
  assert.equal(world.seen.at(-1)?.method, "DELETE");
});

test("what cannot be given back is thrown", async () => {
  const world = new World();
  const client = world.client(({ method }) => (method === "DELETE" ? lost() : yes("mine")));
  const error = await world.failure(client.run(ask, () => "done"));
  assert.ok(error instanceof NotReleased);
  assert.ok(error.cause instanceof Unreachable);
  assert.ok(world.now > 5_000 && world.now < 15_000, `it was tried for ${world.now} ms`);
  assert.equal(client.held, 0);
});

test("what cannot be given back after a body that threw is told, too", async () => {
  const world = new World();
  const client = world.client(({ method }) => (method === "DELETE" ? lost() : yes("mine")));
  const body = () => {
    throw new RangeError("mine");
  };
  assert.ok((await world.failure(client.run(ask, body))) instanceof RangeError);
  assert.equal(world.unreleased.length, 1);
});

test("closing tells the bodies, gives back what is held and ends who asks", async () => {
  const world = new World();
  const client = world.client((seen) => {
    if (seen.method === "DELETE") return released();
    return seen.body["class"] === "full" ? problem(503, "pool_full", { retry_after_ms: 9000 }) : yes("mine");
  });
  const lease = await world.until(client.hold(ask));
  lease.signal.addEventListener("abort", () => void world.sleep(1000).then(() => lease.release()));
  const polite = client.run(ask, (held) => aborted(held.signal));
  const stubborn = client.run(ask, () => world.sleep(60_000));
  const asking = client.admit({ class: "full" });
  asking.catch(() => undefined);
  await world.until(world.sleep(100));
  await world.until(client.close(2000));
  assert.equal(lease.signal.aborted, true);
  assert.equal(client.held, 0);
  assert.equal(((await world.until(polite)) as Error).name, "AbortError");
  assert.equal(((await world.failure(asking)) as Error).name, "AbortError");
  assert.ok(world.now >= 2100 && world.now < 5000, `${world.now}`);
  const given = world.seen.filter(({ method }) => method === "DELETE").map(({ at }) => at);
  assert.deepEqual(given, [100, 1100, 2100], "who ends by itself is waited for, and nobody else for longer");
  await world.until(stubborn);
});

/** Runs until the lease is lost, which its body is told and its caller, too; then it is given back. */
async function lostIn(world: World, client: Client): Promise<LeaseLost> {
  let told: unknown;
  const error = await world.failure(
    client.run(ask, async (lease) => {
      told = await aborted(lease.signal);
    }),
  );
  assert.ok(error instanceof LeaseLost);
  assert.equal(told, error);
  assert.equal(world.seen.at(-1)?.method, "DELETE");
  return error;
}

/** The reason for which a signal aborts. */
function aborted(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => {
    signal.addEventListener("abort", () => {
      resolve(signal.reason);
    });
    if (signal.aborted) resolve(signal.reason);
  });
}
