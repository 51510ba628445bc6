// What a person has sent and no session holds yet: shown at once, until the session's own event shows it.

import type { State, UserItem } from "./state";
import type { Attachment, WaitingPrompt } from "./webviewProtocol";

/** The session that the first prompt makes has no name yet. */
const UNMADE = "";

export class SentPrompts {
  readonly #waiting = new Map<string, readonly WaitingPrompt[]>();
  #sent = 0;

  /** Those of a session, or of the one that is being made. */
  of(sessionId: string | undefined): readonly WaitingPrompt[] | undefined {
    return this.#waiting.get(sessionId ?? UNMADE);
  }

  add(sessionId: string | undefined, text: string, attach: readonly Attachment[], steer: boolean): number {
    this.#sent += 1;
    const prompt = { id: this.#sent, text, attached: attach.map(({ label }) => label), steer };
    this.#set(sessionId ?? UNMADE, [...(this.of(sessionId) ?? []), prompt]);
    return this.#sent;
  }

  /** The session of the first prompt has a name now. */
  made(sessionId: string): void {
    const waiting = this.#waiting.get(UNMADE);
    this.#set(UNMADE, []);
    if (waiting) this.#set(sessionId, [...(this.of(sessionId) ?? []), ...waiting]);
  }

  /** It was refused, or its turn is over. */
  drop(id: number): void {
    for (const [sessionId, waiting] of this.#waiting) {
      if (waiting.some((one) => one.id === id))
        this.#set(
          sessionId,
          waiting.filter((one) => one.id !== id),
        );
    }
  }

  /** The session holds more than before: what it took does not wait any more. */
  taken(before: State | undefined, after: State): void {
    if (!this.#waiting.has(after.sessionId)) return;
    const known = new Set(before?.items.map(({ id }) => id));
    for (const item of after.items) if (item.kind === "user" && !known.has(item.id)) this.#take(after.sessionId, item);
  }

  /** No turn runs: what went to one is not taken any more. Returns their texts. */
  ended(sessionId: string): string[] {
    const waiting = this.#waiting.get(sessionId) ?? [];
    this.#set(
      sessionId,
      waiting.filter(({ steer }) => !steer),
    );
    return waiting.filter(({ steer }) => steer).map(({ text }) => text);
  }

  /** A command is expanded by the server, so where no text fits the oldest is meant. */
  #take(sessionId: string, { text }: UserItem): void {
    const waiting = this.#waiting.get(sessionId) ?? [];
    const found = waiting.find((one) => one.text.trim() === text.trim()) ?? waiting[0];
    if (found) this.drop(found.id);
  }

  #set(sessionId: string, waiting: readonly WaitingPrompt[]): void {
    if (waiting.length === 0) this.#waiting.delete(sessionId);
    else this.#waiting.set(sessionId, waiting);
  }
}
