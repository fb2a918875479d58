// A no is explained by the id that it carries, at a real replica.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, Never, NotNow } from "../src/index.js";
import { startStage } from "./stage.js";

test("a no says which decision it was, and that is explained", async () => {
  await using stage = await startStage();
  const begun = { method: "POST", body: JSON.stringify({ name: "no patience asks once" }) };
  assert.equal((await fetch(`${stage.note.control}/begin`, begun)).status, 200);
  const client = new Client(stage.note.addresses, stage.note.tokens.caller);
  const key = "why";
  const no: unknown = await client
    .admit({ class: stage.note.class, key }, { patienceMs: 0 })
    .catch((e: unknown) => e);
  assert.ok(no instanceof NotNow && no.decisionId);
  const decision = await client.explain(no.decisionId);
  assert.deepEqual([decision.key, decision.code, decision.told.status], [key, no.code, 503]);
  const { cap = -1 } = no.figures;
  assert.match(decision.line, new RegExp(`\\b${cap}\\b`), "whose no it is, with its numbers");
  assert.ok(decision.changes?.length);
  const all = await client.decisions(key);
  assert.deepEqual(all.map(({ id }) => id), [no.decisionId]); // prettier-ignore
  await assert.rejects(client.explain("none-such"), Never);
});
