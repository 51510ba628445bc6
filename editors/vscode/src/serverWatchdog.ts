// Notices a server that has stopped answering. It asks something small from time to time; knows no protocol.

/** How often it asks, and how long it waits for an answer. */
export const EVERY_MS = 4000;
export const PATIENCE_MS = 5000;

export class Watch {
  #timer: NodeJS.Timeout | undefined;
  #over = false;
  #silent = false;

  /** `ask`: settles once the server has answered, with whatever. `tell`: that it does not answer, or does again. */
  constructor(
    readonly ask: () => Promise<unknown>,
    readonly tell: (silent: boolean) => void,
  ) {}

  get silent(): boolean {
    return this.#silent;
  }

  start(): void {
    this.#timer = setTimeout(() => void this.#look(), EVERY_MS);
  }

  stop(): void {
    this.#over = true;
    clearTimeout(this.#timer);
  }

  /** Whether the server answers within this time. */
  async answers(within: number): Promise<boolean> {
    return this.#answered(this.#ask(), within);
  }

  async #look(): Promise<void> {
    const answer = this.#ask();
    const begun = Date.now();
    let answered = await this.#answered(answer, PATIENCE_MS);
    // A machine that slept wakes up with its timers over: the server gets its time too.
    if (!answered && Date.now() - begun > 2 * PATIENCE_MS) answered = await this.#answered(answer, PATIENCE_MS);
    if (!answered && !this.#over) {
      this.#change(true);
      await answer;
    }
    if (this.#over) return;
    this.#change(false);
    this.start();
  }

  #change(silent: boolean): void {
    if (silent === this.#silent) return;
    this.#silent = silent;
    this.tell(silent);
  }

  /** An error is an answer too. */
  #ask(): Promise<unknown> {
    return this.ask().catch(() => undefined);
  }

  async #answered(answer: Promise<unknown>, within: number): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<boolean>((over) => {
      timer = setTimeout(() => over(false), within);
    });
    return Promise.race([answer.then(() => true), late]).finally(() => clearTimeout(timer));
  }
}
