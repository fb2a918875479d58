const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Reads the encoding of claims from its beginning; what is not there makes all of it undone. */
export class Reader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = 0;
  #failed = false;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  byte(): number {
    return this.#take(1) ? this.#view.getUint8(this.#at - 1) : 0;
  }

  /** One byte of length, then as many of UTF-8. */
  string(most: number): string {
    const size = this.byte();
    if (size > most || !this.#take(size)) {
      this.#failed = true;
      return "";
    }
    try {
      return utf8.decode(this.#bytes.subarray(this.#at - size, this.#at));
    } catch {
      this.#failed = true;
      return "";
    }
  }

  /** A number of 64 bits that is not negative; above 2^53 it is rounded. */
  number(): number {
    const value = this.#take(8) ? this.#view.getBigInt64(this.#at - 8) : 0n;
    if (value < 0n) this.#failed = true;
    return Number(value);
  }

  /** Whether all was there, and nothing is left. */
  done(): boolean {
    return !this.#failed && this.#at === this.#bytes.length;
  }

  #take(size: number): boolean {
    if (this.#failed || this.#at + size > this.#bytes.length) this.#failed = true;
    else this.#at += size;
    return !this.#failed;
  }
}
