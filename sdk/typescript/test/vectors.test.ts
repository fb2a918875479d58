// The files of sdk/vectors are written by the Go packages: what passes here decides as they do.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Backoff, away, hintNs, toNs } from "../src/backoff.js";
import { Budget, putOff } from "../src/budget.js";
import { PlimsollError, Unreachable } from "../src/index.js";
import { Transport } from "../src/transport.js";
import { vectors } from "./repository.js";
import { lost, World, yes } from "./world.js";

interface BackoffCase {
  readonly name: string;
  readonly start_ms: number;
  readonly policy: { readonly base_ms: number; readonly cap_ms: number; readonly deadline_ms: number };
  readonly steps: readonly {
    readonly now_ms: number;
    readonly status: number;
    readonly retry_ms: number;
    readonly retry_after: string;
    readonly rand: string;
    readonly delay_ns: string;
    readonly verdict: string;
  }[];
}

test("backoff", () => {
  for (const { name, start_ms, policy, steps } of vectors<BackoffCase>("backoff").cases) {
    const { base_ms: baseMs, cap_ms: capMs, deadline_ms: deadlineMs } = policy;
    const backoff = new Backoff({ baseMs, capMs, deadlineMs }, 0n);
    for (const [i, step] of steps.entries()) {
      const outcome = { status: step.status, retryMs: step.retry_ms, retryAfter: step.retry_after };
      const got = backoff.next(toNs(step.now_ms - start_ms), outcome, BigInt(step.rand), step.now_ms);
      const want = { verdict: step.verdict, delayNs: BigInt(step.delay_ns) };
      assert.deepEqual(got, want, `${name}, step ${i}`);
    }
  }
});

interface HintCase {
  readonly name: string;
  readonly now_ms: number;
  readonly retry_ms: number;
  readonly retry_after: string;
  readonly hint_ms: number;
}

test("hints", () => {
  for (const c of vectors<HintCase>("retry_after").cases) {
    const got = hintNs({ status: 503, retryMs: c.retry_ms, retryAfter: c.retry_after }, c.now_ms);
    assert.equal(got, toNs(c.hint_ms), c.name);
  }
});

interface AwayCase {
  readonly poll_after_ms: number;
  readonly left_ms: number;
  readonly hold_ms: number;
  readonly away_ms: number;
}

test("away", () => {
  for (const c of vectors<AwayCase>("away").cases) {
    assert.equal(away(c.poll_after_ms, c.left_ms, c.hold_ms), c.away_ms, JSON.stringify(c));
  }
});

interface BudgetCase {
  readonly name: string;
  readonly start_ms: number;
  readonly steps: readonly {
    readonly now_ms: number;
    readonly do: "take" | "answered";
    readonly ok: boolean;
  }[];
}

test("budget", () => {
  const file = vectors<BudgetCase>("budget") as { put_off?: readonly { rand: string; delay_ns: string }[] };
  for (const { name, start_ms, steps } of vectors<BudgetCase>("budget").cases) {
    const budget = new Budget(start_ms);
    for (const [i, step] of steps.entries()) {
      if (step.do === "answered") budget.answered(step.now_ms);
      else assert.equal(budget.take(step.now_ms), step.ok, `${name}, step ${i}`);
    }
  }
  assert.ok(file.put_off?.length);
  for (const { rand, delay_ns } of file.put_off) assert.equal(putOff(BigInt(rand)), BigInt(delay_ns), rand);
});

interface ErrorCase {
  readonly name: string;
  readonly now_ms: number;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>> | null;
  readonly body: string;
  readonly kind: string;
  readonly code: string;
  readonly scope: string;
  readonly detail: string;
  readonly reason?: string;
  readonly remedy?: string;
  readonly decision_id?: string;
  readonly receipt?: string;
  readonly retry_after_ms: number;
  readonly retried: boolean;
  readonly needs_token: boolean;
  readonly answered: boolean;
}

/** A world in which the first answer is that of a case, and all others are yes. */
function after(c: ErrorCase): World {
  return new World(c.now_ms);
}

function answer({ status, headers, body }: ErrorCase): Response {
  return status === 0 ? lost() : new Response(body, { status, headers: headers ?? {} });
}

test("errors", async () => {
  for (const c of vectors<ErrorCase>("errors").cases) {
    const world = after(c);
    const error = await world.failure(
      world.client(() => answer(c)).admit({ class: "a", key: "k" }, { patienceMs: 0 }),
    );
    assert.ok(error instanceof PlimsollError, c.name);
    assert.equal(error instanceof Unreachable ? "unreachable" : error.kind, c.kind, c.name);
    const { code, scope, remedy, decisionId, receipt, retryAfterMs, reason = "" } = error;
    const got = { code, scope, remedy, decisionId, receipt, retryAfterMs, reason };
    const told = { remedy: c.remedy ?? "", decisionId: c.decision_id ?? "", receipt: c.receipt ?? "" };
    const want = {
      code: c.code,
      scope: c.scope,
      ...told,
      retryAfterMs: c.retry_after_ms,
      reason: c.reason ?? "",
    };
    assert.deepEqual(got, want, c.name);
    if (c.detail) assert.equal(error.detail, c.detail, c.name);
  }
});

test("which answers are asked again, which bring tokens, and after which asking again takes one", async () => {
  for (const c of vectors<ErrorCase>("errors").cases) {
    const world = after(c);
    const client = world.client((_, nth) => (nth === 1 ? answer(c) : yes("k")));
    await world.until(client.admit({ class: "a", key: "k" }).catch(() => undefined));
    assert.equal(world.seen.length === 2, c.retried, `${c.name}: asked again`);

    const transport = new Transport({ ...world.settings(() => answer(c)), addresses: [new URL("http://a")] });
    const drained = (): boolean => !transport.permitted(new Unreachable("http://a", "lost"));
    while (!drained());
    const error = await world.failure(transport.do({ method: "GET", path: "/" }));
    assert.equal(!drained(), c.answered, `${c.name}: answered`);
    while (!drained());
    assert.equal(!transport.permitted(error), c.needs_token, `${c.name}: needs a token`);
  }
});
