import type { Code, Scope } from "./wire.js";

/** What a caller should make of an outcome that is not a yes. */
export type Kind = "not_now" | "not_allowed" | "never" | "internal";

/** What a code means; the table is that of the Go package api, and a test compares the two. */
export interface Meaning {
  readonly kind: Kind;
  /** Whose no it is, unless the refusal says otherwise. */
  readonly scope: Scope;
}

const notNow = (scope: Scope): Meaning => ({ kind: "not_now", scope });
const notAllowed = (scope: Scope): Meaning => ({ kind: "not_allowed", scope });
const never = (scope: Scope): Meaning => ({ kind: "never", scope });

export const meanings: Readonly<Record<Code, Meaning>> = {
  waiting_capacity: notNow("pool"),
  no_capacity: notNow("fleet"),
  pool_full: notNow("pool"),
  queue_full: notNow("pool"),
  host_starts_saturated: notNow("host"),
  host_pressure: notNow("host"),
  host_draining: notNow("host"),
  host_silent: notNow("host"),
  reservation_lapsed: notNow("host"),
  releasing: notNow("request"),
  unavailable: notNow("fleet"),
  no_healthy_agents: notNow("fleet"),
  queue_timeout: notNow("pool"),
  tenant_over_quota: notAllowed("tenant"),
  invalid_request: never("request"),
  unauthenticated: notAllowed("request"),
  forbidden: notAllowed("request"),
  not_found: never("request"),
  unknown_class: never("request"),
  key_conflict: never("request"),
  infeasible: never("fleet"),
  too_large: never("request"),
  ticket_rejected: never("request"),
  method_not_allowed: never("request"),
  body_too_large: never("request"),
  generation_conflict: never("request"),
  invalid_config: never("request"),
  internal: { kind: "internal", scope: "fleet" },
  over_ceiling: never("fleet"),
  host_state: never("host"),
  join_rejected: notAllowed("request"),
  host_buried: notAllowed("host"),
  mode_of_all: never("request"),
};

/** Whether this client knows a code; a newer server may have others. */
export function isCode(word: string): word is Code {
  return Object.hasOwn(meanings, word);
}

/**
 * The nearest code to a status that came without one we know. 429 is a rule of some proxy that this
 * caller runs into; it never means capacity.
 */
export function codeOfStatus(status: number): Code {
  switch (status) {
    case 401:
      return "unauthenticated";
    case 403:
    case 429:
      return "forbidden";
    case 404:
      return "not_found";
    case 405:
      return "method_not_allowed";
    case 413:
      return "body_too_large";
    case 502:
    case 503:
    case 504:
      return "unavailable";
  }
  return status >= 400 && status < 500 ? "invalid_request" : "internal";
}
