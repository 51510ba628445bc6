// Owns the webview's copy of the view state, which is drawn at most once per frame, and the messages to the host.

import { applyOps } from "../viewPatch";
import type { HostMessage, ViewMessage, ViewState } from "../webviewProtocol";

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
}

/** A conversation entry whose top is `offset` below the top of the view. */
export interface ReadingPosition {
  key: string;
  offset: number;
}

type HostCommand = Exclude<HostMessage, { type: "snapshot" | "before" | "patch" }>;

const vscode = acquireVsCodeApi();

const MAX_POSITIONS = 20;

let view: ViewState | undefined;
let draw: (view: ViewState) => void = () => {};
let isScheduled = false;
let mustAcknowledge = false;
let commandListener: ((message: HostCommand) => void) | undefined;
const queuedMessages: HostCommand[] = [];
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

/** Registers the listener for messages that carry no state, and delivers queued ones. */
export function listenForCommands(listener: (message: HostCommand) => void): void {
  commandListener = listener;
  for (const message of queuedMessages.splice(0)) listener(message);
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

export function saveDraft(session: string, text: string): void {
  const drafts = { ...vscode.getState()?.drafts };
  if (text === "") delete drafts[session];
  else drafts[session] = text;
  vscode.setState({ ...vscode.getState(), drafts });
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
