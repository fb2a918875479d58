/**
 * Verifies the proof of admission that whoever boots demands, offline, by WebCrypto.
 *
 *     text   = "plm1." base64url(claims ‖ mac)
 *     mac    = HMAC-SHA256(key of the audience, claims)
 *     claims = version(1) str(key id) str(audience) str(consumer) str(key) str(pool) str(class)
 *              str(tenant) str(admission id) u64(memory bytes) u64(epoch) u64(issued ms) u64(expires ms)
 *     str(s) = one byte of length, then s; u64 is big-endian
 *
 * The encoding is canonical: one set of claims has one text. It is the Go package ticket over again, and
 * ticket/testdata/vectors.json holds the two together.
 */
import { Reader } from "./bytes.js";
import { TicketRejected } from "./errors.js";
import type { TicketReason } from "./wire.js";

/** What a ticket says. */
export interface Claims {
  /** Which root's key signed it. */
  readonly keyId: string;
  /** Who may redeem it. */
  readonly audience: string;
  /** Whose admission it is. */
  readonly consumer: string;
  /** The consumer's name for it. */
  readonly key: string;
  readonly pool: string;
  readonly class: string;
  readonly tenant: string;
  readonly admissionId: string;
  /** The configured size. */
  readonly memoryBytes: number;
  /** Of the placing; a later one supersedes it. */
  readonly epoch: number;
  readonly issuedMs: number;
  readonly expiresMs: number;
}

/** What a verifier knows of the boot at hand; what is left out is not asked for. */
export interface Expect {
  readonly audience?: string;
  readonly consumer?: string;
  readonly key?: string;
  readonly admissionId?: string;
  readonly pool?: string;
  readonly class?: string;
  readonly epoch?: number;
  /** The time of day that judges whether it has expired; left out, none does. */
  readonly nowMs?: number;
}

/** How far two wall clocks may differ where one judges an expiry. */
export const skewMs = 30_000;

const prefix = "plm1.";
const version = 1;
const macSize = 32;
const maxKeyId = 32;
const maxName = 128;
const maxMillis = 253_402_300_799_999; // the last millisecond of the year 9999
const maxRaw = 1 + 8 + maxKeyId + 7 * maxName + 4 * 8 + macSize;
const maxText = prefix.length + Math.floor((maxRaw * 8 + 5) / 6);
const maxKeys = 16;
const maxFile = 64 * 1024;

/** A ticket's text taken apart; nothing in it is believed yet. */
interface Parts {
  readonly claims: Claims;
  readonly signed: Uint8Array<ArrayBuffer>;
  readonly mac: Uint8Array<ArrayBuffer>;
}

/** The keys by which one audience verifies its tickets. They are secret, and do not show themselves. */
export class AudienceKeys {
  readonly audience: string;
  readonly #keys: ReadonlyMap<string, CryptoKey>;

  private constructor(audience: string, keys: ReadonlyMap<string, CryptoKey>) {
    this.audience = audience;
    this.#keys = keys;
  }

  /** Reads the file that `plimsoll keyring audience NAME` writes. No error repeats a secret. */
  static async parse(file: string): Promise<AudienceKeys> {
    const { audience, keys } = parseFile(file);
    const held = new Map<string, CryptoKey>();
    for (const [id, secret] of keys) {
      held.set(
        id,
        await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]),
      );
    }
    return new AudienceKeys(audience, held);
  }

  /** The names of the keys, which are no secret. */
  get ids(): string[] {
    return [...this.#keys.keys()];
  }

  /**
   * Judges a ticket's text and returns what it claims. What passes may have been released or used
   * before: only a redemption knows.
   *
   * @throws {TicketRejected} with the reason. It says nothing of the ticket's MAC.
   */
  async verify(text: string | undefined, expect: Expect = {}): Promise<Claims> {
    if (!text) throw rejected("missing");
    const parts = takeApart(text);
    if (!parts) throw rejected("malformed");
    const { claims } = parts;
    // The audience is compared first, because the key of another audience is not held here.
    if (claims.audience !== this.audience || differs(claims.audience, expect.audience)) {
      throw rejected("other_host", `it is for "${claims.audience}"; this is "${this.audience}"`);
    }
    if (!(await this.#signed(parts))) {
      throw rejected("forged", `it names key "${claims.keyId}"; here are ${this.ids.join(", ")}`);
    }
    const reason = compare(claims, expect);
    if (reason) throw rejected(reason, reason === "expired" ? `it expired at ${iso(claims.expiresMs)}` : "");
    return claims;
  }

  /** Compares the MAC, in constant time as WebCrypto does. */
  async #signed({ claims, signed, mac }: Parts): Promise<boolean> {
    const key = this.#keys.get(claims.keyId);
    return key !== undefined && (await crypto.subtle.verify("HMAC", key, mac, signed));
  }
}

/** Reads what a ticket says of itself, believed or not; undefined for what is no ticket. */
export function inspect(text: string): Claims | undefined {
  return takeApart(text)?.claims;
}

function rejected(reason: TicketReason, detail = ""): TicketRejected {
  return new TicketRejected({ code: "ticket_rejected", reason, detail });
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

function compare(claims: Claims, expect: Expect): TicketReason | undefined {
  const names = ["consumer", "key", "admissionId", "pool", "class"] as const;
  if (names.some((name) => differs(claims[name], expect[name]))) return "other_key";
  if (expect.epoch && expect.epoch !== claims.epoch) return "superseded";
  if (expect.nowMs !== undefined && expect.nowMs >= claims.expiresMs + skewMs) return "expired";
  return undefined;
}

function differs(claim: string, expected: string | undefined): boolean {
  return expected !== undefined && expected !== "" && claim !== expected;
}

/** Splits a text into claims and MAC; undefined unless it is exactly what a minting writes. */
function takeApart(text: string): Parts | undefined {
  if (!text.startsWith(prefix) || text.length > maxText) return undefined;
  const raw = fromBase64url(text.slice(prefix.length));
  if (!raw || raw.length < macSize) return undefined;
  const signed = raw.slice(0, -macSize);
  const claims = parseClaims(signed);
  return claims && { claims, signed, mac: raw.slice(-macSize) };
}

function parseClaims(bytes: Uint8Array): Claims | undefined {
  const reader = new Reader(bytes);
  if (reader.byte() !== version) return undefined;
  const name = (most = maxName): string => reader.string(most);
  const claims: Claims = {
    keyId: name(maxKeyId),
    audience: name(),
    consumer: name(),
    key: name(),
    pool: name(),
    class: name(),
    tenant: name(),
    admissionId: name(),
    memoryBytes: reader.number(),
    epoch: reader.number(),
    issuedMs: reader.number(),
    expiresMs: reader.number(),
  };
  return reader.done() && possible(claims) ? claims : undefined;
}

function possible({ admissionId, epoch, issuedMs, expiresMs }: Claims): boolean {
  return admissionId !== "" && Number.isSafeInteger(epoch) && issuedMs < expiresMs && expiresMs <= maxMillis;
}

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/** Decodes base64url without padding; undefined for a second text of the same bytes. */
function fromBase64url(text: string): Uint8Array<ArrayBuffer> | undefined {
  const bytes = new Uint8Array(Math.floor((text.length * 6) / 8));
  let [bits, held, at] = [0, 0, 0];
  for (const letter of text) {
    const value = digits.indexOf(letter);
    if (value < 0) return undefined;
    bits = ((bits << 6) | value) & 0xffff;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes[at++] = bits >> held;
    bits &= (1 << held) - 1;
  }
  return held < 6 && bits === 0 ? bytes : undefined;
}

/** The name and the bytes of each key. */
type Secrets = ReadonlyMap<string, Uint8Array<ArrayBuffer>>;

function parseFile(text: string): { readonly audience: string; readonly keys: Secrets } {
  if (text.length > maxFile) throw fault(`${text.length} characters, at most ${maxFile}`);
  const { version: of, audience, keys } = only(json(text), ["version", "audience", "keys"], "the document");
  if (of !== 1) throw fault(`version ${JSON.stringify(of)}, must be 1`);
  if (typeof audience !== "string" || audience === "" || utf8(audience) > maxName) {
    throw fault(`audience is 1 to ${maxName} bytes`);
  }
  if (!Array.isArray(keys) || keys.length === 0 || keys.length > maxKeys) throw fault(`1 to ${maxKeys} keys`);
  const held = new Map<string, Uint8Array<ArrayBuffer>>();
  for (const [i, key] of keys.entries()) addKey(held, key, `key ${i + 1}`);
  if (keys.filter((key: { state?: unknown }) => key.state === "signing").length > 1)
    throw fault("two keys are signing");
  return { audience, keys: held };
}

function addKey(held: Map<string, Uint8Array<ArrayBuffer>>, value: unknown, which: string): void {
  const { id, state, secret } = only(value, ["id", "state", "secret"], which);
  if (typeof id !== "string" || !/^[A-Za-z0-9._-]{1,32}$/.test(id))
    throw fault(`${which}: id is 1 to ${maxKeyId} letters, digits, . _ -`);
  if (state !== "verify-only" && state !== "signing")
    throw fault(`${which}: state is neither verify-only nor signing`);
  if (held.has(id)) throw fault(`${which}: a second key is named ${id}`);
  const bytes = typeof secret === "string" ? fromBase64(secret) : undefined;
  if (bytes?.length !== 32) throw fault(`${which}: secret is not the standard base64 of 32 bytes`);
  if (bytes.every((byte) => byte === bytes[0])) throw fault(`${which}: secret is one byte repeated`);
  held.set(id, bytes);
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^[A-Za-z0-9+/]{43}=$/.test(text)) return undefined;
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** An object that has no other members than these. */
function only(value: unknown, names: readonly string[], which: string): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw fault(`${which} is no object`);
  const unknown = Object.keys(value).find((name) => !names.includes(name));
  if (unknown !== undefined) throw fault(`${which} has an unknown field ${JSON.stringify(unknown)}`);
  return value as Record<string, unknown>;
}

/** Reads JSON; what its parser says is not told, for it quotes. */
function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw fault("it is not JSON");
  }
}

function utf8(text: string): number {
  return new TextEncoder().encode(text).length;
}

function fault(what: string): TypeError {
  return new TypeError(`an audience's keys file: ${what}`);
}
