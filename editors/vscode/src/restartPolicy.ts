// When the server is started again after it ended by itself. Pure: the clock is given.

/** How long a server must live for its end to count as the first. */
const STABLE_UPTIME_MS = 60_000;
const FIRST_DELAY_MS = 300;
const MAX_DELAY_MS = 30_000;

/** Waits that double, without an end: a server that keeps failing is tried again every half minute. */
export class RestartPolicy {
  #exits = 0;
  #startedAt = 0;

  /** A server was started at `now`, in ms. */
  recordStart(now: number): void {
    this.#startedAt = now;
  }

  /** The server ended at `now`: how long to wait before the next, in ms. */
  recordExit(now: number): number {
    if (now - this.#startedAt >= STABLE_UPTIME_MS) this.#exits = 0;
    const delay = Math.min(FIRST_DELAY_MS * 2 ** this.#exits, MAX_DELAY_MS);
    this.#exits += 1;
    return delay;
  }

  /** A person asked for a start. */
  reset(): void {
    this.#exits = 0;
  }

  /** How many servers ended in a row. */
  get exitCount(): number {
    return this.#exits;
  }
}
