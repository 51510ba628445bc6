// The prompts that wait for the turn's end: added, edited, taken out, sent now. The list itself is the session's state.

import { type Chat, given, promptOf } from "./chat";
import type { MessageBlock, PromptBlock, QueueParams, QueueResult, Range } from "./protocol";
import { spoken } from "./state/messages";
import type { Attachment } from "./webviewProtocol";

/** Puts a prompt at the queue's end; where nothing runs and nothing waits it is sent. */
export async function enqueue(chat: Chat, text: string, attach: readonly Attachment[]): Promise<void> {
  const { shown } = chat;
  if (!chat.view.offers.queue || shown === undefined || (shown.running === undefined && shown.queue === undefined)) {
    return chat.send(text, attach);
  }
  chat.set({ trouble: undefined });
  const added = await ask(chat, { action: "add", prompt: promptOf(text, attach) });
  if (added === undefined) chat.listener.giveBack(text, attach);
}

/** Shows a queued prompt, whole, to be edited. */
export async function edit(chat: Chat, promptId: string): Promise<void> {
  const content = (await ask(chat, { action: "list" }))?.prompts.find((one) => one.promptId === promptId)?.content;
  if (content !== undefined) chat.set({ editing: { promptId, text: spoken(content).text } });
}

/** Puts `text` in the place of a queued prompt's; what it points at stays. `uriOf`: of a path as people write it. */
export async function save(chat: Chat, promptId: string, text: string, uriOf: (path: string) => string): Promise<void> {
  const content = (await ask(chat, { action: "list" }))?.prompts.find((one) => one.promptId === promptId)?.content;
  const pointed = (content ?? []).flatMap((block) => resent(block, uriOf));
  chat.set({ editing: undefined });
  const prompt = pointed.length === 0 ? text : [{ type: "text" as const, text }, ...pointed];
  // Sent meanwhile: what was typed goes back.
  const saved = content === undefined ? undefined : await ask(chat, { action: "edit", promptId, prompt });
  if (saved === undefined) chat.listener.giveBack(text);
}

export async function remove(chat: Chat, promptId: string): Promise<void> {
  await ask(chat, { action: "remove", promptId });
}

/** Sends a queued prompt at once, the next one if none is named: to the running turn, or as a turn of its own. */
export async function sendNow(chat: Chat, promptId?: string): Promise<void> {
  await ask(chat, { action: "sendNow", ...given({ promptId }) });
}

async function ask(chat: Chat, what: Omit<QueueParams, "sessionId">): Promise<QueueResult | undefined> {
  const sessionId = chat.shown?.sessionId;
  return sessionId === undefined ? undefined : chat.request("agent/queue", { sessionId, ...what });
}

/** A part of a message as a part of a prompt again; the text is another one's matter. */
export function resent(block: MessageBlock, uriOf: (path: string) => string): PromptBlock[] {
  if (block.type === "image") {
    return block.data === undefined ? [] : [{ type: "image", mediaType: block.mediaType, data: block.data }];
  }
  if (block.type !== "reference") return [];
  const uri = uriOf(block.path);
  const range = rangeOf(block.startLine, block.endLine);
  if (block.kind === "file" || range === undefined) return [{ type: "reference", uri, ...given({ range }) }];
  if (block.kind === "selection") return [{ type: "selection", uri, range, text: block.text }];
  return [{ type: "diagnostic", uri, range, message: block.text }];
}

function rangeOf(first: number | undefined, last: number | undefined): Range | undefined {
  if (first === undefined) return undefined;
  return { start: { line: first - 1, character: 0 }, end: { line: last ?? first, character: 0 } };
}
