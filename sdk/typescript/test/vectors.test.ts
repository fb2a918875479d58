// The files of sdk/vectors are written by the Go packages: what passes here decides as they do.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Backoff, away, hintNs, toNs } from "../src/backoff.js";
import { Budget, putOff } from "../src/budget.js";
import { vectors } from "./repository.js";

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
