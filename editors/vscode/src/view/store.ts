// Owns the webview's copy of the view state, which is drawn at most once per frame, and the messages to the host.

import type { ChatItem } from "../state";
import { applyOps } from "../viewPatch";
import type { Attachment, HostMessage, ViewMessage, ViewState } from "../webviewProtocol";

interface VsCodeApi {
  postMessage(message: ViewMessage): void;
  getState(): PersistedState | undefined;
  setState(state: PersistedState): void;
}

declare function acquireVsCodeApi(): VsCodeApi;

/** What survives hiding or reloading the webview. */
export interface PersistedState {
  drafts: Record<string, string>;
  /** Reading positions of sessions that do not follow their end. */
  positions?: Record<string, ReadingPosition>;
  /** The last prompts that were sent, oldest first. */
  prompts?: readonly string[];
}

/** A conversation entry whose top is `offset` below the top of the view. */
export interface ReadingPosition {
  key: string;
  offset: number;
}

export type HostCommand = Exclude<HostMessage, { type: "snapshot" | "before" | "patch" }>;

const vscode = acquireVsCodeApi();

const MAX_POSITIONS = 20;
const MAX_DRAFTS = 200;
const MAX_PROMPTS = 100;

let view: ViewState | undefined;
let draw: (view: ViewState) => void = () => {};
let isScheduled = false;
let mustAcknowledge = false;
let commandListener: ((message: HostCommand) => void) | undefined;
const queuedMessages: HostCommand[] = [];
/** What the user asked for while the session list covered the input. */
const deferredMessages: HostCommand[] = [];
/** Attachments that are not sent yet, by session. The host has a copy, for a reload. */
const attachments = new Map<string, readonly Attachment[]>();
/** Longest drawing time since the last call of `takeLongestDraw`, in ms, for measurements. */
let longestDrawMs = 0;
/** Duration of the first drawing in ms, for measurements. */
export let firstDrawMs: number | undefined;

export function postMessage(message: ViewMessage): void {
  vscode.postMessage(message);
}

/** Renders the state now and after each change. */
export function startRendering(render: (view: ViewState) => void): void {
  draw = render;
  window.addEventListener("message", (event: MessageEvent<HostMessage>) => {
    const message = event.data;
    if (message.type === "snapshot") view = message.view;
    else if (message.type === "before") {
      if (view?.chat) view = { ...view, chat: { ...view.chat, items: [...message.items, ...view.chat.items] } };
    } else if (message.type === "patch") {
      if (view) view = applyOps(view, message.ops);
      mustAcknowledge = true;
    } else {
      queuedMessages.push(message);
    }
    scheduleDraw();
  });
  postMessage({ type: "ready" });
}

/** Registers the input's listener for messages that carry no state, and delivers queued ones. Returns its removal. */
export function listenForCommands(listener: (message: HostCommand) => void): () => void {
  commandListener = listener;
  for (const message of [...deferredMessages.splice(0), ...queuedMessages.splice(0)]) listener(message);
  return () => {
    if (commandListener === listener) commandListener = handleWithoutInput;
  };
}

/** Runs while the session list covers the input. Drafts are kept, and what the user asked for waits for the input. */
function handleWithoutInput(message: HostCommand): void {
  if (message.type === "attached") storeAttachments(message.bySession);
  else if (message.type === "compose" && !message.isWanted)
    addToDraft(message.session ?? "", message.text ?? "", message.attach ?? []);
  else if (message.type === "compose" || message.type === "showOpenQuestion" || message.type === "answerVisible") {
    // A key shows the question, and the next press answers it.
    deferredMessages.push(message.type === "answerVisible" ? { type: "showOpenQuestion" } : message);
    postMessage({ type: "sessions", show: false });
  }
}

function scheduleDraw(): void {
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame(() => {
    isScheduled = false;
    const startedAt = performance.now();
    if (view) draw(view);
    // Components of the first frame register their listener after it, so messages wait until then.
    if (commandListener) for (const message of queuedMessages.splice(0)) commandListener(message);
    const drawMs = performance.now() - startedAt;
    longestDrawMs = Math.max(longestDrawMs, drawMs);
    if (view) firstDrawMs ??= drawMs;
    if (mustAcknowledge) postMessage({ type: "drawn" });
    mustAcknowledge = false;
  });
}

export function readDraft(session: string): string {
  return vscode.getState()?.drafts[session] ?? "";
}

/** Keeps the latest drafts. Forms keep theirs under the ids of their questions. */
export function saveDraft(key: string, text: string): void {
  const { [key]: _old, ...drafts } = vscode.getState()?.drafts ?? {};
  const kept = Object.entries(drafts).slice(1 - MAX_DRAFTS);
  vscode.setState({ ...vscode.getState(), drafts: Object.fromEntries(text === "" ? kept : [...kept, [key, text]]) });
}

export function readAttachments(session: string): readonly Attachment[] {
  return attachments.get(session) ?? [];
}

export function saveAttachments(session: string, list: readonly Attachment[]): void {
  attachments.set(session, list);
  postMessage({ type: "attached", session, attach: [...list] });
}

/** Takes over the host's copy after a reload. */
export function storeAttachments(bySession: Readonly<Record<string, readonly Attachment[]>>): void {
  for (const [session, list] of Object.entries(bySession)) attachments.set(session, list);
}

/** Puts text before a session's draft, and adds attachments. Returns the new draft. */
export function addToDraft(session: string, text: string, added: readonly Attachment[]): string {
  const draft = [text, readDraft(session)].filter((part) => part !== "").join("\n\n");
  saveDraft(session, draft);
  if (added.length > 0) saveAttachments(session, mergeAttachments(readAttachments(session), added));
  return draft;
}

export function mergeAttachments(old: readonly Attachment[], added: readonly Attachment[]): Attachment[] {
  return [...old, ...added.filter((attachment) => !old.some((other) => other.label === attachment.label))];
}

export function rememberPrompt(text: string): void {
  const prompts = [...(vscode.getState()?.prompts ?? []), text].slice(-MAX_PROMPTS);
  vscode.setState({ drafts: {}, ...vscode.getState(), prompts });
}

/** Returns the prompts that the user has sent, each once. Those of the shown session are last. */
export function listSentPrompts(items: readonly ChatItem[]): string[] {
  const shown = items.flatMap((item) => (item.kind === "user" && item.text !== "" ? [item.text] : []));
  return [...new Set([...(vscode.getState()?.prompts ?? []), ...shown].reverse())].reverse();
}

/** Returns nothing if the session follows its end. */
export function readPosition(session: string): ReadingPosition | undefined {
  return vscode.getState()?.positions?.[session];
}

export function savePosition(session: string, at: ReadingPosition | undefined): void {
  const state = vscode.getState();
  if (at === undefined && state?.positions?.[session] === undefined) return;
  const { [session]: _old, ...otherPositions } = state?.positions ?? {};
  const positions =
    at === undefined
      ? otherPositions
      : Object.fromEntries([...Object.entries(otherPositions), [session, at]].slice(-MAX_POSITIONS));
  vscode.setState({ drafts: {}, ...state, positions });
}

/** Returns the longest drawing time and resets it. */
export function takeLongestDraw(): number {
  const longest = longestDrawMs;
  longestDrawMs = 0;
  return longest;
}
