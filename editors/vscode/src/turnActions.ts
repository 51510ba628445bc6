// What is done with a whole turn: its changes reverted and made again, the session forked at it. It asks first what a
// revert would do; the page shows that, and the person says yes once.

import type { Chat } from "./chat";
import type { RevertConflict } from "./protocol";
import type { ChangesItem, ChatItem } from "./state";
import { TURN_RUNNING_MESSAGE } from "./webviewProtocol";

/** So many files are told by name. */
const MAX_LISTED_FILES = 100;

/** Asks what the revert of a turn (or its redo) would do, and shows it. */
export async function previewRevert(chat: Chat, turnId: string, redo: boolean): Promise<void> {
  const sessionId = chat.activeSession?.sessionId;
  if (sessionId === undefined) return;
  if (chat.activeSession?.running !== undefined) return chat.updateView({ error: TURN_RUNNING_MESSAGE });
  chat.updateView({ error: undefined, pendingRevert: undefined });
  const would = await chat.request("agent/revert", { sessionId, turnId, redo, dryRun: true });
  if (would === undefined || chat.activeSession?.sessionId !== sessionId) return;
  const { turnIds, files, conflicts } = would;
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

/** Does what was shown. What it left as it is beyond that is told. */
export async function applyRevert(chat: Chat): Promise<void> {
  const asked = chat.view.pendingRevert;
  if (asked === undefined) return;
  const { sessionId, turnId, redo } = asked;
  chat.updateView({ pendingRevert: undefined });
  const done = await chat.request("agent/revert", { sessionId, turnId, redo });
  const known = new Set(asked.conflicts.map(({ path }) => path));
  const fresh = (done?.conflicts ?? []).filter(({ path }) => !known.has(path));
  if (fresh.length > 0 && asked.conflictCount <= MAX_LISTED_FILES)
    chat.updateView({ error: describeUnreverted(fresh) });
}

function describeUnreverted(conflicts: readonly RevertConflict[]): string {
  const lines = conflicts.slice(0, 5).map(({ path, why }) => `${path}: ${why}`);
  if (conflicts.length > 5) lines.push(`and ${conflicts.length - 5} more`);
  return ["Left unchanged:", ...lines].join("\n");
}

/** Makes a session of what this one has up to the end of a turn, and shows it; what is told of that. */
export async function forkSession(chat: Chat, turnId?: string): Promise<string | undefined> {
  const sessionId = chat.activeSession?.sessionId;
  if (sessionId === undefined) return undefined;
  const made = await chat.request("agent/forkSession", { sessionId, ...(turnId === undefined ? {} : { turnId }) });
  if (made === undefined) return undefined;
  await chat.openSession(made.sessionId);
  return `Switched to “${made.title ?? "the fork"}”. Files on disk are unchanged.`;
}

/** The turns of which changes are known, the last one first, with what the person said. */
export function listChangedTurns(items: readonly ChatItem[]): { changes: ChangesItem; prompt: string }[] {
  return items
    .filter((item): item is ChangesItem => item.kind === "changes")
    .map((changes) => ({ changes, prompt: getTurnPrompt(items, changes.id) }))
    .reverse();
}

/** The turns that have ended, the last one first, with what the person said. */
export function listEndedTurns(items: readonly ChatItem[]): { turnId: string; prompt: string }[] {
  const turns = items.flatMap((item) => (item.kind === "turnEnd" && item.turnId !== undefined ? [item.turnId] : []));
  return turns.map((turnId) => ({ turnId, prompt: getTurnPrompt(items, turnId) })).reverse();
}

function getTurnPrompt(items: readonly ChatItem[], turnId: string): string {
  const prompt = items.find((item) => item.kind === "user" && item.turnId === turnId);
  const text = prompt?.kind === "user" ? prompt.text : "";
  return text.split("\n", 1)[0]?.slice(0, 80) ?? "";
}
