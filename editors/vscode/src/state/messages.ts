// Messages: text and reasoning piece by piece, the message that completes them, and broken ones that are taken back.

import { utf8Length, utf8Tail } from "../format";
import type {
  MessageBlock,
  MessageNotification,
  MessageRetractedNotification,
  More,
  TextDeltaNotification,
} from "../protocol";
import { find, put, without } from "./items";
import type { AssistantItem, State } from "./model";
import { BY_MESSAGE, BY_WORDS, notice, resolved } from "./notices";

/** Joins a piece of text on; a gap is told, what is known already is left out. */
export function delta(
  state: State,
  p: TextDeltaNotification,
  field: "text" | "reasoning",
  count: "bytes" | "reasoningBytes",
): State {
  const known = find(state, "assistant", p.messageId);
  if (known && !known.open) return state;
  const item: AssistantItem = known ?? {
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
  const base = resolved(state, BY_WORDS);
  const have = item[count];
  if (p.offset > have) return { ...base, missed: state.missed ?? "text" };
  const length = utf8Length(p.text);
  if (p.offset + length <= have && known) return base;
  const piece = p.offset === have ? p.text : utf8Tail(p.text, have - p.offset);
  const next = { ...item, [field]: item[field] + piece, [count]: p.offset + length };
  return { ...put(base, next), activity: field === "text" ? "answering" : "thinking" };
}

interface Spoken {
  text: string;
  reasoning: string;
  references: string[];
  images: number;
  calls: Set<string>;
  more: More | undefined;
}

export function spoken(content: readonly MessageBlock[]): Spoken {
  const said: Spoken = { text: "", reasoning: "", references: [], images: 0, calls: new Set(), more: undefined };
  for (const block of content) {
    switch (block.type) {
      case "text":
        said.text += block.text;
        said.more ??= block.more?.["text"];
        break;
      case "reasoning":
        said.reasoning += (said.reasoning === "" ? "" : "\n\n") + block.text;
        break;
      case "toolUse":
        said.calls.add(block.toolCallId);
        break;
      case "image":
        said.images += 1;
        break;
      case "reference":
        said.references.push(block.path + lines(block.startLine, block.endLine));
        break;
      case "toolResult":
        break;
    }
  }
  return said;
}

function lines(first: number | undefined, last: number | undefined): string {
  if (first === undefined) return "";
  return last !== undefined && last > first ? `:${first}-${last}` : `:${first}`;
}

export function message(state: State, p: MessageNotification): State {
  if (p.hidden) return state;
  const said = spoken(p.content);
  if (p.role === "user") {
    return put(state, {
      kind: "user",
      id: p.messageId,
      turnId: p.turnId,
      text: said.text,
      references: said.references,
      images: said.images,
      steer: state.items.some((item) => item.kind === "user" && item.turnId === p.turnId && item.id !== p.messageId),
    });
  }
  if (p.role !== "assistant") return state;
  // A call that the message does not hold is void.
  const next = without(
    resolved(state, BY_MESSAGE),
    (item) =>
      item.kind === "tool" && item.status === "writing" && item.messageId === p.messageId && !said.calls.has(item.id),
  );
  const activity = next.running === undefined ? undefined : ("thinking" as const);
  if (said.text === "" && said.reasoning === "") {
    return { ...without(next, (item) => item.kind === "assistant" && item.id === p.messageId), activity };
  }
  const known = find(next, "assistant", p.messageId);
  // A text that was cut for the wire is no better than what was streamed whole.
  const streamed = said.more !== undefined && known !== undefined && known.bytes >= said.more.bytes;
  const text = streamed ? known.text : said.text;
  const item: AssistantItem = {
    kind: "assistant",
    id: p.messageId,
    turnId: p.turnId,
    text,
    bytes: 0,
    reasoning: said.reasoning,
    reasoningBytes: 0,
    open: false,
    incomplete: p.incomplete ?? false,
    more: streamed ? undefined : said.more,
  };
  return { ...put(next, item), activity };
}

export function messageRetracted(state: State, p: MessageRetractedNotification): State {
  const calls = new Set(p.toolCallIds);
  const next = without(
    state,
    (item) =>
      (item.kind === "assistant" && item.id === p.messageId) ||
      (item.kind === "tool" && (calls.has(item.id) || (item.status === "writing" && item.messageId === p.messageId))),
  );
  if (next === state) return state;
  return notice(
    { ...next, activity: "thinking" },
    { key: "retracted", kind: "retracted", text: "A broken answer was taken back" },
  );
}
