// The page's copy of the view's state, drawn at most once a frame, and its line to the extension host.

import { applyOps } from "../viewPatch";
import type { HostMessage, ViewMessage, ViewState } from "../webviewProtocol";

interface VsCodeApi {
  postMessage(message: ViewMessage): void;
  getState(): PersistedState | undefined;
  setState(state: PersistedState): void;
}

declare function acquireVsCodeApi(): VsCodeApi;

/** What the page keeps when it is hidden or loaded again: what was typed and not sent. */
export interface PersistedState {
  drafts: Record<string, string>;
  /** Where sessions are read, of those whose end is not followed. */
  places?: Record<string, ReadingPosition>;
}

/** An entry of the conversation whose top is `offset` below the view's top. */
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
/** The longest time that drawing took since it was last asked for, in ms: for measuring. */
let longestDrawMs = 0;
/** How long the first drawing took, in ms: for measuring. */
export let firstDrawMs: number | undefined;

export function postMessage(message: ViewMessage): void {
  vscode.postMessage(message);
}

/** Draws the state now and whenever it changes. */
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

/** Who hears what is no state. What came before is told at once. */
export function listenForCommands(listener: (message: HostCommand) => void): void {
  commandListener = listener;
  for (const message of queuedMessages.splice(0)) listener(message);
}

function scheduleDraw(): void {
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame(() => {
    isScheduled = false;
    const begun = performance.now();
    if (view) draw(view);
    // What is drawn first listens only after this frame; until then messages wait.
    if (commandListener) for (const message of queuedMessages.splice(0)) commandListener(message);
    const took = performance.now() - begun;
    longestDrawMs = Math.max(longestDrawMs, took);
    if (view) firstDrawMs ??= took;
    if (mustAcknowledge) postMessage({ type: "drawn" });
    mustAcknowledge = false;
  });
}

/** What was typed into the input of a session and not sent. */
export function readDraft(session: string): string {
  return vscode.getState()?.drafts[session] ?? "";
}

export function saveDraft(session: string, text: string): void {
  const drafts = { ...vscode.getState()?.drafts };
  if (text === "") delete drafts[session];
  else drafts[session] = text;
  vscode.setState({ ...vscode.getState(), drafts });
}

/** Where a session is read; nothing where its end is followed. */
export function readPosition(session: string): ReadingPosition | undefined {
  return vscode.getState()?.places?.[session];
}

export function savePosition(session: string, at: ReadingPosition | undefined): void {
  const state = vscode.getState();
  if (at === undefined && state?.places?.[session] === undefined) return;
  const { [session]: _old, ...others } = state?.places ?? {};
  const places =
    at === undefined ? others : Object.fromEntries([...Object.entries(others), [session, at]].slice(-MAX_POSITIONS));
  vscode.setState({ drafts: {}, ...state, places });
}

/** Takes the longest drawing so far, and begins anew. */
export function takeLongestDraw(): number {
  const taken = longestDrawMs;
  longestDrawMs = 0;
  return taken;
}
