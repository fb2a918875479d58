import { type NotNow, Unreachable } from "plimsoll";

/** Says a not now to a person: whose no it is, and when to ask again. */
export function notNow(no: NotNow, others: string): string {
  const { pool, pool_busy: busy, cap, share } = no.figures;
  const again = no.retryAfterMs > 0 ? no.retryAfterMs : 5_000;
  if (no.code === "pool_full" && pool !== undefined && busy !== undefined && cap !== undefined) {
    const whose = share === undefined ? "" : ` (${busy - share.held} ${others}, ${share.held} chat)`;
    return `all ${cap} ${pool} slots are busy${whose}; the next frees in about ${roughly(again)}`;
  }
  if (no instanceof Unreachable || no.code === "unavailable") {
    return `nobody can say at the moment whether there is room; ask again in about ${roughly(again)}`;
  }
  return `not at the moment (${no.detail}); ask again in about ${roughly(again)}`;
}

/** Writes a time as a person would. */
export function roughly(ms: number): string {
  const seconds = Math.max(1, Math.round(ms / 1_000));
  return seconds < 90 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}
