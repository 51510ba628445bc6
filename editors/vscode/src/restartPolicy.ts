// Decides when to restart a server that exited. Pure: callers pass the time.

/** Minimum uptime that resets the backoff. */
const STABLE_UPTIME_MS = 60_000;
const FIRST_DELAY_MS = 300;
const MAX_DELAY_MS = 30_000;

/** Exponential backoff without a limit on attempts. */
export class RestartPolicy {
  #exits = 0;
  #startedAt = 0;

  recordStart(now: number): void {
    this.#startedAt = now;
  }

  /** Returns the delay before the next start, in ms. */
  recordExit(now: number): number {
    if (now - this.#startedAt >= STABLE_UPTIME_MS) this.#exits = 0;
    const delay = Math.min(FIRST_DELAY_MS * 2 ** this.#exits, MAX_DELAY_MS);
    this.#exits += 1;
    return delay;
  }

  /** Call it when the user requests a start. */
  reset(): void {
    this.#exits = 0;
  }

  /** The number of consecutive exits. */
  get exitCount(): number {
    return this.#exits;
  }
}
