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
    const prompts = this.#pending.get(NEW_SESSION);
    this.#setPending(NEW_SESSION, []);
    if (prompts) this.#setPending(sessionId, [...(this.getPending(sessionId) ?? []), ...prompts]);
  }

  dropPrompt(id: number): void {
    for (const [sessionId, prompts] of this.#pending) {
      if (prompts.some((prompt) => prompt.id === id))
        this.#setPending(
          sessionId,
          prompts.filter((prompt) => prompt.id !== id),
        );
    }
  }

  /** Removes the prompts that new items of the session contain. */
  onItemsAdded(before: ChatState | undefined, after: ChatState): void {
    if (!this.#pending.has(after.sessionId)) return;
    const knownIds = new Set(before?.items.map(({ id }) => id));
    for (const item of after.items)
      if (item.kind === "user" && !knownIds.has(item.id)) this.#removeAccepted(after.sessionId, item);
  }

  /** Removes steers that the ended turn did not use and returns their texts. */
  takeUnusedSteers(sessionId: string): string[] {
    const prompts = this.#pending.get(sessionId) ?? [];
    this.#setPending(
      sessionId,
      prompts.filter(({ steer }) => !steer),
    );
    return prompts.filter(({ steer }) => steer).map(({ text }) => text);
  }

  /** The server expands commands, so if no text matches, the oldest prompt was taken. */
  #removeAccepted(sessionId: string, { text }: UserItem): void {
    const prompts = this.#pending.get(sessionId) ?? [];
    const match = prompts.find((prompt) => prompt.text.trim() === text.trim()) ?? prompts[0];
    if (match) this.dropPrompt(match.id);
  }

  #setPending(sessionId: string, prompts: readonly PendingPrompt[]): void {
    if (prompts.length === 0) this.#pending.delete(sessionId);
    else this.#pending.set(sessionId, prompts);
  }
}
