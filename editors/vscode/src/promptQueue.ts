// The prompts that wait for the turn's end: added, edited, taken out, sent now. The list itself is the session's state.

import { buildPrompt, type Chat, omitUndefined } from "./chat";
import type { MessageBlock, PromptBlock, QueueParams, QueueResult, Range } from "./protocol";
import { parseMessageContent } from "./state/messages";
import type { Attachment } from "./webviewProtocol";

/** Puts a prompt at the queue's end; where nothing runs and nothing waits it is sent. */
export async function enqueuePrompt(chat: Chat, text: string, attach: readonly Attachment[]): Promise<void> {
  const { activeSession: shown } = chat;
  if (
    !chat.view.capabilities.queue ||
    shown === undefined ||
    (shown.running === undefined && shown.queue === undefined)
  ) {
    return chat.sendPrompt(text, attach);
  }
  chat.updateView({ error: undefined });
  const added = await requestQueue(chat, { action: "add", prompt: buildPrompt(text, attach) });
  if (added === undefined) chat.listener.restoreDraft(text, attach);
}

/** Shows a queued prompt, whole, to be edited. */
export async function editQueuedPrompt(chat: Chat, promptId: string): Promise<void> {
  const content = (await requestQueue(chat, { action: "list" }))?.prompts.find(
    (one) => one.promptId === promptId,
  )?.content;
  if (content !== undefined) chat.updateView({ queueEdit: { promptId, text: parseMessageContent(content).text } });
}

/** Puts `text` in the place of a queued prompt's; what it points at stays. `uriOf`: of a path as people write it. */
export async function saveQueuedPrompt(
  chat: Chat,
  promptId: string,
  text: string,
  uriOf: (path: string) => string,
): Promise<void> {
  const content = (await requestQueue(chat, { action: "list" }))?.prompts.find(
    (one) => one.promptId === promptId,
  )?.content;
  const pointed = (content ?? []).flatMap((block) => toPromptBlocks(block, uriOf));
  chat.updateView({ queueEdit: undefined });
  const prompt = pointed.length === 0 ? text : [{ type: "text" as const, text }, ...pointed];
  // Sent meanwhile: what was typed goes back.
  const saved = content === undefined ? undefined : await requestQueue(chat, { action: "edit", promptId, prompt });
  if (saved === undefined) chat.listener.restoreDraft(text);
}

export async function removeQueuedPrompt(chat: Chat, promptId: string): Promise<void> {
  await requestQueue(chat, { action: "remove", promptId });
}

/** Sends a queued prompt at once, the next one if none is named: to the running turn, or as a turn of its own. */
export async function sendQueuedPrompt(chat: Chat, promptId?: string): Promise<void> {
  await requestQueue(chat, { action: "sendNow", ...omitUndefined({ promptId }) });
}

async function requestQueue(chat: Chat, what: Omit<QueueParams, "sessionId">): Promise<QueueResult | undefined> {
  const sessionId = chat.activeSession?.sessionId;
  return sessionId === undefined ? undefined : chat.request("agent/queue", { sessionId, ...what });
}

/** A part of a message as a part of a prompt again; the text is another one's matter. */
export function toPromptBlocks(block: MessageBlock, uriOf: (path: string) => string): PromptBlock[] {
  if (block.type === "image") {
    return block.data === undefined ? [] : [{ type: "image", mediaType: block.mediaType, data: block.data }];
  }
  if (block.type !== "reference") return [];
  const uri = uriOf(block.path);
  const range = toLineRange(block.startLine, block.endLine);
  if (block.kind === "file" || range === undefined) return [{ type: "reference", uri, ...omitUndefined({ range }) }];
  if (block.kind === "selection") return [{ type: "selection", uri, range, text: block.text }];
  return [{ type: "diagnostic", uri, range, message: block.text }];
}

function toLineRange(first: number | undefined, last: number | undefined): Range | undefined {
  if (first === undefined) return undefined;
  return { start: { line: first - 1, character: 0 }, end: { line: last ?? first, character: 0 } };
}
