// Tracks prompts that were sent but are not in a session yet. They appear at once, until the session's event replaces
// them. They survive a reload of the window, so that what no turn took goes back to the input.

import type { KeyValueStore } from "./chat";
import type { ChatState, UserItem } from "./state";
import type { Attachment, PendingPrompt } from "./webviewProtocol";

/** The key for the session that the first prompt creates. */
const NEW_SESSION = "";
const MEMORY_KEY = "sent";

/** A prompt that the user sent, until a turn takes it. */
export interface Draft {
  text: string;
  attach: readonly Attachment[];
}

/** What the view does not show of a prompt. */
interface SentDetails {
  attach: readonly Attachment[];
  /** The session's last user message when the prompt was sent. Only later ones can contain it. */
  afterId: string | undefined;
}

/** A prompt that was sent before the window was reloaded. */
interface RememberedPrompt extends Draft {
  sessionId: string;
  afterId?: string | undefined;
}

export class SentPrompts {
  readonly #pending = new Map<string, readonly PendingPrompt[]>();
  readonly #details = new Map<number, SentDetails>();
  /** Prompts of sessions that this window has not loaded yet. */
  #remembered: readonly RememberedPrompt[] | undefined;
  #lastId = 0;

  constructor(readonly memory: KeyValueStore) {}

  getPending(sessionId: string | undefined): readonly PendingPrompt[] | undefined {
    return this.#pending.get(sessionId ?? NEW_SESSION);
  }

  addPrompt(session: ChatState | undefined, { text, attach }: Draft, steer: boolean): number {
    this.#lastId += 1;
    const sessionId = session?.sessionId ?? NEW_SESSION;
    const prompt = { id: this.#lastId, text, attached: attach.map(({ label }) => label), steer };
    this.#details.set(prompt.id, { attach, afterId: findLastUserId(session) });
    this.#setPending(sessionId, [...(this.getPending(sessionId) ?? []), prompt]);
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

  /** Removes steers that the ended turn did not use and returns them. */
  takeUnusedSteers(sessionId: string): Draft[] {
    const prompts = this.#pending.get(sessionId) ?? [];
    const steers = prompts.filter(({ steer }) => steer);
    const drafts = steers.map(({ id, text }) => ({ text, attach: this.#details.get(id)?.attach ?? [] }));
    this.#setPending(
      sessionId,
      prompts.filter(({ steer }) => !steer),
    );
    return drafts;
  }

  /** Returns what was sent before the window was reloaded, and what the loaded session does not contain. */
  takeRemembered(session: ChatState | undefined): Draft[] {
    this.#remembered ??= JSON.parse(this.memory.get(MEMORY_KEY) ?? "[]") as RememberedPrompt[];
    const sessionId = session?.sessionId ?? NEW_SESSION;
    const [first, ...others] = this.#remembered.filter((prompt) => prompt.sessionId === sessionId);
    // The turn may still take it.
    if (first === undefined || session?.running !== undefined) return [];
    this.#remembered = this.#remembered.filter((prompt) => prompt.sessionId !== sessionId);
    this.#save();
    const untaken = [first, ...others];
    for (const { text } of listUserItems(session, first.afterId)) {
      // The server expands commands, so if no text matches, the oldest prompt was taken.
      const at = untaken.findIndex((prompt) => prompt.text.trim() === text.trim());
      untaken.splice(Math.max(0, at), 1);
    }
    return untaken;
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
    this.#save();
  }

  #save(): void {
    const sent = [...this.#pending].flatMap(([sessionId, prompts]) =>
      prompts.map(({ id, text }): RememberedPrompt => {
        const { attach = [], afterId } = this.#details.get(id) ?? {};
        // Pictures are too large for this storage.
        return { sessionId, text, attach: attach.filter(({ kind }) => kind !== "image"), afterId };
      }),
    );
    const all = [...(this.#remembered ?? []), ...sent];
    this.memory.set(MEMORY_KEY, all.length === 0 ? undefined : JSON.stringify(all));
  }
}

export function findLastUserId(session: ChatState | undefined): string | undefined {
  return session?.items.findLast(({ kind }) => kind === "user")?.id;
}

/** Lists the user's messages after the given one. */
function listUserItems(session: ChatState | undefined, afterId: string | undefined): UserItem[] {
  const items = (session?.items ?? []).filter((item): item is UserItem => item.kind === "user");
  return items.slice(items.findIndex(({ id }) => id === afterId) + 1);
}

/** Whether the session contains a prompt that was sent after the given message. */
export function hasTakenPrompt(session: ChatState | undefined, text: string, afterId: string | undefined): boolean {
  const later = listUserItems(session, afterId).filter(({ steer }) => !steer);
  // The server expands commands.
  return text.startsWith("/") ? later.length > 0 : later.some((item) => item.text.trim() === text.trim());
}

/** Joins several drafts into one. */
export function joinDrafts(drafts: readonly Draft[]): Draft {
  const texts = drafts.map(({ text }) => text).filter((text) => text !== "");
  return { text: texts.join("\n\n"), attach: drafts.flatMap(({ attach }) => attach) };
}
