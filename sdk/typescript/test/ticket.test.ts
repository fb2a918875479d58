// Tickets by ticket/testdata/vectors.json, which the Go package writes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect as show } from "node:util";
import { AudienceKeys, inspect, TicketRejected } from "../src/substrate.js";
import { readText } from "./repository.js";

interface Vectors {
  readonly audience: string;
  readonly audience_keys: readonly {
    readonly id: string;
    readonly state: string;
    readonly secret_hex: string;
  }[];
  readonly valid: readonly {
    readonly name: string;
    readonly claims: Record<string, unknown>;
    readonly text: string;
  }[];
  readonly invalid: readonly {
    readonly name: string;
    readonly text: string;
    readonly now_ms?: number;
    readonly expect_key?: string;
    readonly expect_epoch?: number;
    readonly reason: string;
  }[];
}

const vectors = JSON.parse(readText("ticket", "testdata", "vectors.json")) as Vectors;

const file = {
  version: 1,
  audience: vectors.audience,
  keys: vectors.audience_keys.map(({ id, state, secret_hex }) => ({
    id,
    state,
    secret: Buffer.from(secret_hex, "hex").toString("base64"),
  })),
};

const keys = await AudienceKeys.parse(JSON.stringify(file));

test("valid tickets", async () => {
  assert.ok(vectors.valid.length > 0);
  for (const { name, claims, text } of vectors.valid) {
    const got = await keys.verify(text);
    const { key_id, admission_id, memory_bytes, issued_ms, expires_ms, version, ...same } = claims;
    const renamed = { keyId: key_id, admissionId: admission_id, memoryBytes: memory_bytes };
    assert.equal(version, 1);
    assert.deepEqual(got, { ...same, ...renamed, issuedMs: issued_ms, expiresMs: expires_ms }, name);
    assert.deepEqual(inspect(text), got, name);
  }
});

test("tickets that boot nothing", async () => {
  assert.ok(vectors.invalid.length > 0);
  for (const bad of vectors.invalid) {
    const error = await rejection(bad.text, {
      ...(bad.expect_key && { key: bad.expect_key }),
      ...(bad.expect_epoch && { epoch: bad.expect_epoch }),
      ...(bad.now_ms && { nowMs: bad.now_ms }),
    });
    assert.equal(error.reason, bad.reason, bad.name);
    assert.equal(error.kind, "never");
    const mac = bad.text.slice(-43);
    assert.ok(mac === "" || !show(error).includes(mac), `${bad.name}: the MAC is told`);
  }
});

test("a ticket with any other letter is refused", async () => {
  const { text = "" } = vectors.valid[0] ?? {};
  for (let i = 0; i < text.length; i++) {
    const other = text[i] === "A" ? "B" : "A";
    const { reason } = await rejection(text.slice(0, i) + other + text.slice(i + 1), {});
    assert.ok(
      reason === "forged" || reason === "malformed" || reason === "other_host",
      `letter ${i}: ${reason}`,
    );
  }
});

async function rejection(
  text: string,
  expect: Parameters<AudienceKeys["verify"]>[1],
): Promise<TicketRejected> {
  const verdict: unknown = await keys.verify(text, expect).catch((error: unknown) => error);
  assert.ok(verdict instanceof TicketRejected, `${text} passed`);
  return verdict;
}

test("an expired ticket passes within the skew of two clocks", async () => {
  const past = vectors.invalid.find(({ reason }) => reason === "expired");
  await keys.verify(past?.text, { nowMs: (past?.now_ms ?? 0) - 1 });
});

test("keys do not show themselves", () => {
  const { secret = "" } = file.keys[0] ?? {};
  assert.ok(!show(keys, { depth: 9, showHidden: true }).includes(secret));
  assert.ok(!JSON.stringify(keys).includes(secret));
});

test("keys files that are refused, and no secret told", async () => {
  const [one = { id: "", state: "", secret: "" }] = file.keys;
  const bad: [string, unknown][] = [
    ["another version", { ...file, version: 2 }],
    ["a file of roots", { version: 1, roots: file.keys }],
    ["no audience", { ...file, audience: "" }],
    ["no keys", { ...file, keys: [] }],
    ["an unknown field", { ...file, keys: [{ ...one, note: one.secret }] }],
    ["one name twice", { ...file, keys: [one, { ...one, state: "verify-only" }] }],
    ["two that sign", { ...file, keys: file.keys.map((key) => ({ ...key, state: "signing" })) }],
    ["an unknown state", { ...file, keys: [{ ...one, state: one.secret }] }],
    ["a short secret", { ...file, keys: [{ ...one, secret: "AAAA" }] }],
    ["a byte repeated", { ...file, keys: [{ ...one, secret: Buffer.alloc(32, 7).toString("base64") }] }],
    ["a bad name", { ...file, keys: [{ ...one, id: "a b" }] }],
    ["no object", [file]],
  ];
  for (const [name, document] of bad) await refused(name, JSON.stringify(document));
  await refused("no JSON", JSON.stringify(file).slice(0, -9));
  await refused("too long", JSON.stringify(file) + " ".repeat(65536));
  async function refused(name: string, text: string): Promise<void> {
    const error: unknown = await AudienceKeys.parse(text).catch((reason: unknown) => reason);
    assert.ok(error instanceof TypeError, `${name} was taken`);
    assert.ok(!file.keys.some(({ secret }) => show(error).includes(secret)), `${name}: a secret is told`);
  }
});
