// Notices a server that has stopped answering. It asks something small from time to time; knows no protocol.

/** How often it asks, and how long it waits for an answer. */
export const PING_INTERVAL_MS = 4000;
export const PING_TIMEOUT_MS = 5000;

export class ServerWatchdog {
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;
  #wasSilent = false;

  /** `ask`: settles once the server has answered, with whatever. `tell`: that it does not answer, or does again. */
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

  /** Whether the server answers within this time. */
  async answersWithin(within: number): Promise<boolean> {
    return this.#awaitAnswer(this.#pingServer(), within);
  }

  async #checkServer(): Promise<void> {
    const answer = this.#pingServer();
    const begun = Date.now();
    let answered = await this.#awaitAnswer(answer, PING_TIMEOUT_MS);
    // A machine that slept wakes up with its timers over: the server gets its time too.
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

  /** An error is an answer too. */
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
