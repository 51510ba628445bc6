// Reduces messages: deltas, complete messages, and retractions.

import { utf8Length, utf8Tail } from "../format";
import type {
  MessageBlock,
  MessageNotification,
  MessageRetractedNotification,
  TextDeltaNotification,
  TruncatedField,
} from "../protocol";
import { findItem, putItem, removeItems } from "./items";
import type { AssistantItem, ChatState } from "./model";
import { ENDED_BY_DELTA, ENDED_BY_MESSAGE, putNotice, removeNotices } from "./notices";

/** Appends a delta. Marks a gap as missed, and skips text that is already known. */
export function applyDelta(
  state: ChatState,
  p: TextDeltaNotification,
  field: "text" | "reasoning",
  count: "bytes" | "reasoningBytes",
): ChatState {
  const existing = findItem(state, "assistant", p.messageId);
  if (existing && !existing.open) return state;
  const item: AssistantItem = existing ?? {
    kind: "assistant",
    id: p.messageId,
    turnId: p.turnId,
    text: "",
    bytes: 0,
    reasoning: "",
    reasoningBytes: 0,
    open: true,
    incomplete: false,
  };
  const cleared = removeNotices(state, ENDED_BY_DELTA);
  const knownLength = item[count];
  if (p.offset > knownLength) return { ...cleared, missed: state.missed ?? "text" };
  const length = utf8Length(p.text);
  if (p.offset + length <= knownLength && existing) return cleared;
  const newText = p.offset === knownLength ? p.text : utf8Tail(p.text, knownLength - p.offset);
  const next = { ...item, [field]: item[field] + newText, [count]: p.offset + length };
  return { ...putItem(cleared, next), activity: field === "text" ? "answering" : "thinking" };
}

interface MessageContent {
  text: string;
  reasoning: string;
  references: string[];
  images: number;
  calls: Set<string>;
  more: TruncatedField | undefined;
}

export function parseMessageContent(content: readonly MessageBlock[]): MessageContent {
  const parsed: MessageContent = {
    text: "",
    reasoning: "",
    references: [],
    images: 0,
    calls: new Set(),
    more: undefined,
  };
  for (const block of content) {
    switch (block.type) {
      case "text":
        parsed.text += block.text;
        parsed.more ??= block.more?.["text"];
        break;
      case "reasoning":
        parsed.reasoning += (parsed.reasoning === "" ? "" : "\n\n") + block.text;
        break;
      case "toolUse":
        parsed.calls.add(block.toolCallId);
        break;
      case "image":
        parsed.images += 1;
        break;
      case "reference":
        parsed.references.push(block.path + formatLines(block.startLine, block.endLine));
        break;
      case "toolResult":
        break;
    }
  }
  return parsed;
}

function formatLines(first: number | undefined, last: number | undefined): string {
  if (first === undefined) return "";
  return last !== undefined && last > first ? `:${first}-${last}` : `:${first}`;
}

export function applyMessage(state: ChatState, p: MessageNotification): ChatState {
  if (p.hidden) return state;
  const content = parseMessageContent(p.content);
  if (p.role === "user") {
    return putItem(state, {
      kind: "user",
      id: p.messageId,
      turnId: p.turnId,
      text: content.text,
      references: content.references,
      images: content.images,
      steer: state.items.some((item) => item.kind === "user" && item.turnId === p.turnId && item.id !== p.messageId),
    });
  }
  if (p.role !== "assistant") return state;
  // Drop calls that the complete message does not contain.
  const next = removeItems(
    removeNotices(state, ENDED_BY_MESSAGE),
    (item) =>
      item.kind === "tool" &&
      item.status === "writing" &&
      item.messageId === p.messageId &&
      !content.calls.has(item.id),
  );
  const activity = next.running === undefined ? undefined : ("thinking" as const);
  if (content.text === "" && content.reasoning === "") {
    return { ...removeItems(next, (item) => item.kind === "assistant" && item.id === p.messageId), activity };
  }
  const existing = findItem(next, "assistant", p.messageId);
  // If the message is truncated, keep the text that was streamed in full.
  const streamed = content.more !== undefined && existing !== undefined && existing.bytes >= content.more.bytes;
  const text = streamed ? existing.text : content.text;
  const item: AssistantItem = {
    kind: "assistant",
    id: p.messageId,
    turnId: p.turnId,
    text,
    bytes: 0,
    reasoning: content.reasoning,
    reasoningBytes: 0,
    open: false,
    incomplete: p.incomplete ?? false,
    more: streamed ? undefined : content.more,
  };
  return { ...putItem(next, item), activity };
}

export function applyMessageRetracted(state: ChatState, p: MessageRetractedNotification): ChatState {
  const calls = new Set(p.toolCallIds);
  const next = removeItems(
    state,
    (item) =>
      (item.kind === "assistant" && item.id === p.messageId) ||
      (item.kind === "tool" && (calls.has(item.id) || (item.status === "writing" && item.messageId === p.messageId))),
  );
  if (next === state) return state;
  return putNotice(
    { ...next, activity: "thinking" },
    { key: "retracted", kind: "retracted", text: "An incomplete answer was discarded" },
  );
}
