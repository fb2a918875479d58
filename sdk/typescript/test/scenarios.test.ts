// The scenarios that every SDK plays, over real sockets against a real replica. Most of each is waiting,
// so several stages share them.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { play } from "./player.js";
import { scenarios, startStage } from "./stage.js";

const count = 4;

assert.ok(scenarios.length >= 50, `there are only ${scenarios.length}`);

const stages = await Promise.all(Array.from({ length: count }, startStage));
after(async () => {
  await Promise.all(stages.map((stage) => stage[Symbol.asyncDispose]()));
});

test("scenarios", { concurrency: count }, async (t) => {
  await Promise.all(
    stages.map((stage, i) =>
      t.test(`stage ${i}`, async (on) => {
        for (const scenario of scenarios.filter((_, nth) => nth % count === i)) {
          await on.test(scenario.name, async () => {
            assert.deepEqual(await play(stage.note, scenario), []);
          });
        }
      }),
    ),
  );
});
