// Tracks prompts that were sent but are not in a session yet. They appear at once, until the session's event replaces
// them.

import type { ChatState, UserItem } from "./state";
import type { Attachment, PendingPrompt } from "./webviewProtocol";

/** The key for the session that the first prompt creates. */
const NEW_SESSION = "";

export class SentPrompts {
  readonly #pending = new Map<string, readonly PendingPrompt[]>();
  #lastId = 0;

  getPending(sessionId: string | undefined): readonly PendingPrompt[] | undefined {
    return this.#pending.get(sessionId ?? NEW_SESSION);
  }

  addPrompt(sessionId: string | undefined, text: string, attach: readonly Attachment[], steer: boolean): number {
    this.#lastId += 1;
    const prompt = { id: this.#lastId, text, attached: attach.map(({ label }) => label), steer };
    this.#setPending(sessionId ?? NEW_SESSION, [...(this.getPending(sessionId) ?? []), prompt]);
    return this.#lastId;
  }

  onSessionCreated(sessionId: string): void {
    const waiting = this.#pending.get(NEW_SESSION);
    this.#setPending(NEW_SESSION, []);
    if (waiting) this.#setPending(sessionId, [...(this.getPending(sessionId) ?? []), ...waiting]);
  }

  dropPrompt(id: number): void {
    for (const [sessionId, waiting] of this.#pending) {
      if (waiting.some((one) => one.id === id))
        this.#setPending(
          sessionId,
          waiting.filter((one) => one.id !== id),
        );
    }
  }

  /** Removes the prompts that new items of the session contain. */
  onItemsAdded(before: ChatState | undefined, after: ChatState): void {
    if (!this.#pending.has(after.sessionId)) return;
    const known = new Set(before?.items.map(({ id }) => id));
    for (const item of after.items)
      if (item.kind === "user" && !known.has(item.id)) this.#removeTaken(after.sessionId, item);
  }

  /** Removes steers that the ended turn did not use and returns their texts. */
  takeUnusedSteers(sessionId: string): string[] {
    const waiting = this.#pending.get(sessionId) ?? [];
    this.#setPending(
      sessionId,
      waiting.filter(({ steer }) => !steer),
    );
    return waiting.filter(({ steer }) => steer).map(({ text }) => text);
  }

  /** The server expands commands, so if no text matches, the oldest prompt was taken. */
  #removeTaken(sessionId: string, { text }: UserItem): void {
    const waiting = this.#pending.get(sessionId) ?? [];
    const found = waiting.find((one) => one.text.trim() === text.trim()) ?? waiting[0];
    if (found) this.dropPrompt(found.id);
  }

  #setPending(sessionId: string, waiting: readonly PendingPrompt[]): void {
    if (waiting.length === 0) this.#pending.delete(sessionId);
    else this.#pending.set(sessionId, waiting);
  }
}
