// Actions on whole turns: revert, redo, and fork. A preview shows what a revert would do, and the user confirms once.

import type { Chat } from "./chat";
import type { RevertConflict } from "./protocol";
import type { ChangesItem, ChatItem } from "./state";
import { TURN_RUNNING_MESSAGE } from "./webviewProtocol";

/** Maximum number of files in a preview. */
const MAX_LISTED_FILES = 100;

/** Previews the revert or redo of a turn. */
export async function previewRevert(chat: Chat, turnId: string, redo: boolean): Promise<void> {
  const sessionId = chat.activeSession?.sessionId;
  if (sessionId === undefined) return;
  if (chat.activeSession?.running !== undefined) return chat.updateView({ error: TURN_RUNNING_MESSAGE });
  chat.updateView({ error: undefined, pendingRevert: undefined });
  const preview = await chat.request("agent/revert", { sessionId, turnId, redo, dryRun: true });
  if (preview === undefined || chat.activeSession?.sessionId !== sessionId) return;
  const { turnIds, files, conflicts } = preview;
  chat.updateView({
    pendingRevert: {
      sessionId,
      turnId,
      redo,
      turns: turnIds.length,
      files: files.slice(0, MAX_LISTED_FILES),
      fileCount: files.length,
      conflicts: conflicts.slice(0, MAX_LISTED_FILES),
      conflictCount: conflicts.length,
    },
  });
}

/** Applies the preview. Reports files that stayed unchanged unexpectedly. */
export async function applyRevert(chat: Chat): Promise<void> {
  const preview = chat.view.pendingRevert;
  if (preview === undefined) return;
  const { sessionId, turnId, redo } = preview;
  chat.updateView({ pendingRevert: undefined });
  const result = await chat.request("agent/revert", { sessionId, turnId, redo });
  const expected = new Set(preview.conflicts.map(({ path }) => path));
  const unexpected = (result?.conflicts ?? []).filter(({ path }) => !expected.has(path));
  if (unexpected.length > 0 && preview.conflictCount <= MAX_LISTED_FILES)
    chat.updateView({ error: describeUnreverted(unexpected) });
}

function describeUnreverted(conflicts: readonly RevertConflict[]): string {
  const lines = conflicts.slice(0, 5).map(({ path, why }) => `${path}: ${why}`);
  if (conflicts.length > 5) lines.push(`and ${conflicts.length - 5} more`);
  return ["Left unchanged:", ...lines].join("\n");
}

/** Forks the session at the end of a turn and shows the fork. Returns a message for the user. */
export async function forkSession(chat: Chat, turnId?: string): Promise<string | undefined> {
  const sessionId = chat.activeSession?.sessionId;
  if (sessionId === undefined) return undefined;
  const fork = await chat.request("agent/forkSession", { sessionId, ...(turnId === undefined ? {} : { turnId }) });
  if (fork === undefined) return undefined;
  await chat.openSession(fork.sessionId);
  return `Switched to “${fork.title ?? "the fork"}”. Files on disk are unchanged.`;
}

/** Lists turns with known changes, latest first, with their prompts. */
export function listChangedTurns(items: readonly ChatItem[]): { changes: ChangesItem; prompt: string }[] {
  return items
    .filter((item): item is ChangesItem => item.kind === "changes")
    .map((changes) => ({ changes, prompt: getTurnPrompt(items, changes.id) }))
    .reverse();
}

/** Lists ended turns, latest first, with their prompts. */
export function listEndedTurns(items: readonly ChatItem[]): { turnId: string; prompt: string }[] {
  const turns = items.flatMap((item) => (item.kind === "turnEnd" && item.turnId !== undefined ? [item.turnId] : []));
  return turns.map((turnId) => ({ turnId, prompt: getTurnPrompt(items, turnId) })).reverse();
}

function getTurnPrompt(items: readonly ChatItem[], turnId: string): string {
  const prompt = items.find((item) => item.kind === "user" && item.turnId === turnId);
  const text = prompt?.kind === "user" ? prompt.text : "";
  return text.split("\n", 1)[0]?.slice(0, 80) ?? "";
}
