import type { CallOptions, Client } from "./client.js";
import { Internal, TicketRejected } from "./errors.js";
import { AudienceKeys, type Claims, inspect } from "./ticket.js";
import type { Redemption } from "./wire.js";

export { AudienceKeys, type Claims, type Expect, inspect, skewMs } from "./ticket.js";
export { TicketRejected } from "./errors.js";

/**
 * The gate of whoever boots what a pool without hosts admits (`placement: none`): a container class, a
 * function, a provider's sandboxes. Without a valid ticket nothing boots.
 *
 *     const keys = await AudienceKeys.parse(file); // made by: plimsoll keyring audience NAME
 *     const gate = new Gate(plimsoll, keys);
 *     const admitted = await gate.redeem(ticket, instance); // it throws: boot nothing
 *     await boot(admitted.memory_mb);
 *
 * `verify` judges a ticket here, with the audience's own key and without a call: what is missing,
 * malformed, forged, for another audience or past its end by more than 30 s of this clock. What only the
 * store knows, that it was released, placed anew or used before, `redeem` asks: once, before the boot.
 * The same instance may ask again, so that a lost answer costs no boot; so an instance must be booted by
 * its own redemption alone.
 *
 * Whoever holds the keys can forge tickets, for this audience alone: keep them where only what boots can
 * read them, and never in a page.
 */
export class Gate {
  readonly #client: Client;
  readonly #now: () => number;
  #keys: AudienceKeys;

  /** The client's token is that of a consumer with the role substrate and this audience. */
  constructor(client: Client, keys: AudienceKeys, now: () => number = Date.now) {
    this.#client = client;
    this.#keys = keys;
    this.#now = now;
  }

  /**
   * Takes other keys, as a step of their rotation. Until a new one is here, `verify` calls its tickets
   * forged, and `redeem` leaves them to the replica.
   */
  setKeys(keys: AudienceKeys): void {
    this.#keys = keys;
  }

  /**
   * Judges a ticket by itself and returns what it claims. What passes may have been released or used
   * before: only `redeem` knows.
   *
   * @throws {TicketRejected} with the reason.
   */
  verify(ticket: string | undefined): Promise<Claims> {
    return this.#keys.verify(ticket, { nowMs: this.#now() });
  }

  /**
   * Verifies a ticket and gives it up for one boot, which may begin when this returns and not otherwise.
   *
   * @throws {TicketRejected} which is final for this ticket. Anything else, such as a NotNow, is not now:
   * boot nothing, and ask again with the same instance.
   */
  async redeem(ticket: string | undefined, instance: string, options: CallOptions = {}): Promise<Redemption> {
    if (!instance) {
      throw new TypeError("redeem: name the instance that is to boot, and the same when asking again");
    }
    const claims = await this.#judge(ticket);
    const redeemed = await this.#client.redeemTicket({ ticket: ticket ?? "", instance }, options);
    if (redeemed.id !== claims.admissionId || redeemed.epoch !== claims.epoch) {
      const detail = `the answer is about ${redeemed.id} at epoch ${redeemed.epoch}, and the ticket about ${claims.admissionId} at ${claims.epoch}`;
      throw new Internal({ code: "", detail });
    }
    return redeemed;
  }

  /**
   * Verifies, but lets a ticket for this audience pass that names a key that is not held here: one that
   * came into use before it came here. The replica that redeems it has every key, so a rotation that
   * this gate lags behind refuses no boot.
   */
  async #judge(ticket: string | undefined): Promise<Claims> {
    try {
      return await this.verify(ticket);
    } catch (error) {
      const said = inspect(ticket ?? "");
      if (!(error instanceof TicketRejected) || !said) throw error;
      if (said.audience !== this.#keys.audience || this.#keys.ids.includes(said.keyId)) throw error;
      return said;
    }
  }
}
