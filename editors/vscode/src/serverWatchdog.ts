// Detects a server that stops responding, with regular pings. It does not know the protocol.

/** Interval and timeout of a ping. */
export const PING_INTERVAL_MS = 4000;
export const PING_TIMEOUT_MS = 5000;

export class ServerWatchdog {
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;
  #wasSilent = false;

  /** `ping` settles when the server answers. `onChange` runs when it stops or resumes answering. */
  constructor(
    readonly ping: () => Promise<unknown>,
    readonly onChange: (isSilent: boolean) => void,
  ) {}

  get silent(): boolean {
    return this.#wasSilent;
  }

  start(): void {
    this.#timer = setTimeout(() => void this.#checkServer(), PING_INTERVAL_MS);
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  /** Whether the server answers within `within` ms. */
  async answersWithin(within: number): Promise<boolean> {
    return this.#awaitAnswer(this.#pingServer(), within);
  }

  async #checkServer(): Promise<void> {
    const answer = this.#pingServer();
    const begun = Date.now();
    let answered = await this.#awaitAnswer(answer, PING_TIMEOUT_MS);
    // After the machine sleeps, timers fire early. Give the server another full timeout.
    if (!answered && Date.now() - begun > 2 * PING_TIMEOUT_MS)
      answered = await this.#awaitAnswer(answer, PING_TIMEOUT_MS);
    if (!answered && !this.#isStopped) {
      this.#setSilent(true);
      await answer;
    }
    if (this.#isStopped) return;
    this.#setSilent(false);
    this.start();
  }

  #setSilent(silent: boolean): void {
    if (silent === this.#wasSilent) return;
    this.#wasSilent = silent;
    this.onChange(silent);
  }

  /** An error also counts as an answer. */
  #pingServer(): Promise<unknown> {
    return this.ping().catch(() => undefined);
  }

  async #awaitAnswer(answer: Promise<unknown>, within: number): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<boolean>((over) => {
      timer = setTimeout(() => over(false), within);
    });
    return Promise.race([answer.then(() => true), late]).finally(() => clearTimeout(timer));
  }
}
