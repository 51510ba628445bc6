// Edits the prompt queue of a session. The queue itself is part of the session state.

import { buildPrompt, type Chat, omitUndefined } from "./chat";
import type { MessageBlock, PromptBlock, QueueParams, QueueResult, Range } from "./protocol";
import { parseMessageContent } from "./state/messages";
import type { Attachment } from "./webviewProtocol";

/** Adds a prompt to the queue, or sends it if nothing runs and the queue is empty. */
export async function enqueuePrompt(chat: Chat, text: string, attach: readonly Attachment[]): Promise<void> {
  const { activeSession: session } = chat;
  if (
    !chat.view.capabilities.queue ||
    session === undefined ||
    (session.running === undefined && session.queue === undefined)
  ) {
    return chat.sendPrompt(text, attach);
  }
  chat.updateView({ error: undefined });
  const added = await requestQueue(chat, { action: "add", prompt: buildPrompt(text, attach) });
  if (added === undefined) chat.listener.restoreDraft(session.sessionId, { text, attach });
}

export async function editQueuedPrompt(chat: Chat, promptId: string): Promise<void> {
  const content = (await requestQueue(chat, { action: "list" }))?.prompts.find(
    (queued) => queued.promptId === promptId,
  )?.content;
  if (content !== undefined) chat.updateView({ queueEdit: { promptId, text: parseMessageContent(content).text } });
}

/** Replaces the text of a queued prompt and keeps its attachments. `resolveUri` resolves a path as users write it. */
export async function saveQueuedPrompt(
  chat: Chat,
  promptId: string,
  text: string,
  resolveUri: (path: string) => string,
): Promise<void> {
  const sessionId = chat.activeSession?.sessionId;
  const content = (await requestQueue(chat, { action: "list" }))?.prompts.find(
    (queued) => queued.promptId === promptId,
  )?.content;
  const attachments = (content ?? []).flatMap((block) => toPromptBlocks(block, resolveUri));
  chat.updateView({ queueEdit: undefined });
  const prompt = attachments.length === 0 ? text : [{ type: "text" as const, text }, ...attachments];
  // The prompt was sent in the meantime, so restore the text.
  const result = content === undefined ? undefined : await requestQueue(chat, { action: "edit", promptId, prompt });
  if (result === undefined) chat.listener.restoreDraft(sessionId, { text, attach: [] });
}

export async function removeQueuedPrompt(chat: Chat, promptId: string): Promise<void> {
  await requestQueue(chat, { action: "remove", promptId });
}

/** Sends a queued prompt, by default the next one, to the running turn or as a new turn. */
export async function sendQueuedPrompt(chat: Chat, promptId?: string): Promise<void> {
  await requestQueue(chat, { action: "sendNow", ...omitUndefined({ promptId }) });
}

async function requestQueue(chat: Chat, action: Omit<QueueParams, "sessionId">): Promise<QueueResult | undefined> {
  const sessionId = chat.activeSession?.sessionId;
  return sessionId === undefined ? undefined : chat.request("agent/queue", { sessionId, ...action });
}

/** Converts part of a message back to part of a prompt. The caller handles text. */
export function toPromptBlocks(block: MessageBlock, resolveUri: (path: string) => string): PromptBlock[] {
  if (block.type === "image") {
    return block.data === undefined ? [] : [{ type: "image", mediaType: block.mediaType, data: block.data }];
  }
  // The text of the prompt names what came from an MCP server.
  if (block.type !== "reference" || block.kind === "resource" || block.kind === "prompt") return [];
  const uri = resolveUri(block.path);
  const range = toLineRange(block.startLine, block.endLine);
  if (block.kind === "file" || range === undefined) return [{ type: "reference", uri, ...omitUndefined({ range }) }];
  if (block.kind === "selection") return [{ type: "selection", uri, range, text: block.text }];
  return [{ type: "diagnostic", uri, range, message: block.text }];
}

function toLineRange(first: number | undefined, last: number | undefined): Range | undefined {
  if (first === undefined) return undefined;
  return { start: { line: first - 1, character: 0 }, end: { line: last ?? first, character: 0 } };
}
