import { boundedMs, hintNs, toMs } from "./backoff.js";
import { codeOfStatus, isCode } from "./codes.js";
import { type PlimsollError, refusal } from "./errors.js";
import type { Fault, Problem } from "./wire.js";

/** What is read of an answer that is not a yes. */
export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}

/** What an answer that is not a yes says, and whether it is the gate itself that says so. */
export interface Refused {
  readonly error: PlimsollError;
  readonly ours: boolean;
}

/** Reads a no. `wallMs`, the time of day, is for a Retry-After that is a date. */
export function refusalOf(reply: Reply, wallMs: number): Refused {
  const header = toMs(hintNs({ status: 0, retryAfter: reply.headers.get("Retry-After") ?? "" }, wallMs));
  const problem = problemIn(reply);
  if (!problem) {
    // Not ours: a proxy in between, or another server.
    const detail = `the answer was status ${reply.status} and no problem document`;
    const { status } = reply;
    return {
      ours: false,
      error: refusal({ code: codeOfStatus(status), detail, retryAfterMs: header, status }),
    };
  }
  const { code, retry_after_ms, decision_id, ...rest } = problem;
  const known = isCode(code);
  const error = refusal({
    ...rest,
    // A newer server's code: its status says what to make of it.
    code: known ? code : codeOfStatus(reply.status),
    detail: lines(known ? rest.detail : joined(": ", code, rest.detail), rest.errors),
    scope: known ? rest.scope : undefined,
    decisionId: decision_id,
    retryAfterMs: retry_after_ms && retry_after_ms > 0 ? boundedMs(retry_after_ms) : header,
    figures: figuresOf(problem),
    status: reply.status,
  });
  return { ours: true, error };
}

/** Whether a no came as a problem document of ours. */
function problemIn(reply: Reply): (Omit<Problem, "code"> & { readonly code: string }) | undefined {
  if (!isJSON(reply.headers)) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(reply.body);
  } catch {
    return undefined;
  }
  return isProblem(value) ? value : undefined;
}

function isProblem(value: unknown): value is Problem {
  if (typeof value !== "object" || value === null) return false;
  const of = value as Record<string, unknown>;
  const texts = ["scope", "detail", "remedy", "decision_id", "receipt", "reason"];
  return (
    typeof of["code"] === "string" &&
    of["code"] !== "" &&
    texts.every((name) => of[name] === undefined || typeof of[name] === "string") &&
    (of["retry_after_ms"] === undefined || Number.isInteger(of["retry_after_ms"])) &&
    (of["errors"] === undefined || Array.isArray(of["errors"]))
  );
}

function figuresOf(p: Omit<Problem, "code">): object {
  const { waiting_for, pool, pool_busy, cap, position, queued_for_ms, timed_out } = p;
  const { limit, use, share, override, elsewhere_fits, tally, hosts } = p;
  const all = { waiting_for, pool, pool_busy, cap, position, queued_for_ms, timed_out };
  const more = { limit, use, share, override, elsewhere_fits, tally, hosts };
  return Object.fromEntries(Object.entries({ ...all, ...more }).filter(([, value]) => value !== undefined));
}

/** Writes each fault of a document on a line of its own, below the detail. */
function lines(detail: string | undefined, faults: readonly Fault[] = []): string {
  const each = faults.map((f) => joined(": ", f.line ? `line ${f.line}` : "", f.path, f.message));
  return joined("\n", detail, ...each);
}

function joined(separator: string, ...parts: (string | undefined)[]): string {
  return parts.filter(Boolean).join(separator);
}

/** Whether an answer says that it is JSON, or a problem document. */
export function isJSON(headers: Headers): boolean {
  const kind = (headers.get("Content-Type") ?? "").split(";")[0]?.trim().toLowerCase();
  return kind === "application/json" || kind === "application/problem+json";
}
