// Detects a server that stops responding, with regular pings. It does not know the protocol.

/** Interval and timeout of a ping. */
export const PING_INTERVAL_MS = 4000;
export const PING_TIMEOUT_MS = 5000;

export class ServerWatchdog {
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;
  #isSilent = false;

  /** `ping` settles when the server answers. `onChange` runs when it stops or resumes answering. */
  constructor(
    readonly ping: () => Promise<unknown>,
    readonly onChange: (isSilent: boolean) => void,
  ) {}

  get isSilent(): boolean {
    return this.#isSilent;
  }

  start(): void {
    this.#timer = setTimeout(() => void this.#checkServer(), PING_INTERVAL_MS);
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  /** Whether the server answers within `timeoutMs`. */
  async respondsWithin(timeoutMs: number): Promise<boolean> {
    return this.#awaitAnswer(this.#pingServer(), timeoutMs);
  }

  async #checkServer(): Promise<void> {
    const answer = this.#pingServer();
    const startedAt = Date.now();
    let hasAnswered = await this.#awaitAnswer(answer, PING_TIMEOUT_MS);
    // After the machine sleeps, timers fire early. Give the server another full timeout.
    if (!hasAnswered && Date.now() - startedAt > 2 * PING_TIMEOUT_MS)
      hasAnswered = await this.#awaitAnswer(answer, PING_TIMEOUT_MS);
    if (!hasAnswered && !this.#isStopped) {
      this.#setSilent(true);
      await answer;
    }
    if (this.#isStopped) return;
    this.#setSilent(false);
    this.start();
  }

  #setSilent(isSilent: boolean): void {
    if (isSilent === this.#isSilent) return;
    this.#isSilent = isSilent;
    this.onChange(isSilent);
  }

  /** An error also counts as an answer. */
  #pingServer(): Promise<unknown> {
    return this.ping().catch(() => undefined);
  }

  async #awaitAnswer(answer: Promise<unknown>, timeoutMs: number): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<boolean>((resolve) => {
      timer = setTimeout(() => resolve(false), timeoutMs);
    });
    return Promise.race([answer.then(() => true), timeout]).finally(() => clearTimeout(timer));
  }
}
