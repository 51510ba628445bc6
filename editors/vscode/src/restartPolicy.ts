// When the server is started again after it ended by itself. Pure: the clock is given.

/** How long a server must live for its end to count as the first. */
const STEADY_MS = 60_000;
const FIRST_MS = 300;
const LONGEST_MS = 30_000;

/** Waits that double, without an end: a server that keeps failing is tried again every half minute. */
export class RestartPolicy {
  #ends = 0;
  #startedAt = 0;

  /** A server was started at `now`, in ms. */
  started(now: number): void {
    this.#startedAt = now;
  }

  /** The server ended at `now`: how long to wait before the next, in ms. */
  ended(now: number): number {
    if (now - this.#startedAt >= STEADY_MS) this.#ends = 0;
    const delay = Math.min(FIRST_MS * 2 ** this.#ends, LONGEST_MS);
    this.#ends += 1;
    return delay;
  }

  /** A person asked for a start. */
  reset(): void {
    this.#ends = 0;
  }

  /** How many servers ended in a row. */
  get ends(): number {
    return this.#ends;
  }
}
