// The page's copy of the view's state, drawn at most once a frame, and its line to the extension host.

import { patch } from "../viewPatch";
import type { FromView, ToView, ViewState } from "../webviewProtocol";

interface VsCode {
  postMessage(message: FromView): void;
  getState(): Kept | undefined;
  setState(state: Kept): void;
}

declare function acquireVsCodeApi(): VsCode;

/** What the page keeps when it is hidden or loaded again: what was typed and not sent. */
export interface Kept {
  drafts: Record<string, string>;
  /** Where sessions are read, of those whose end is not followed. */
  places?: Record<string, Place>;
}

/** An entry of the conversation whose top is `offset` below the view's top. */
export interface Place {
  key: string;
  offset: number;
}

type Said = Exclude<ToView, { type: "snapshot" | "before" | "patch" }>;

const vscode = acquireVsCodeApi();

const MOST_PLACES = 20;

let view: ViewState | undefined;
let draw: (view: ViewState) => void = () => {};
let scheduled = false;
let answer = false;
let heard: ((message: Said) => void) | undefined;
const early: Said[] = [];
/** The longest time that drawing took since it was last asked for, in ms: for measuring. */
let longest = 0;
/** How long the first drawing took, in ms: for measuring. */
export let firstDraw: number | undefined;

export function post(message: FromView): void {
  vscode.postMessage(message);
}

/** Draws the state now and whenever it changes. */
export function start(render: (view: ViewState) => void): void {
  draw = render;
  window.addEventListener("message", (event: MessageEvent<ToView>) => {
    const message = event.data;
    if (message.type === "snapshot") view = message.view;
    else if (message.type === "before") {
      if (view?.chat) view = { ...view, chat: { ...view.chat, items: [...message.items, ...view.chat.items] } };
    } else if (message.type === "patch") {
      if (view) view = patch(view, message.ops);
      answer = true;
    } else {
      early.push(message);
    }
    schedule();
  });
  post({ type: "ready" });
}

/** Who hears what is no state. What came before is told at once. */
export function hear(listener: (message: Said) => void): void {
  heard = listener;
  for (const message of early.splice(0)) listener(message);
}

function schedule(): void {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    const begun = performance.now();
    if (view) draw(view);
    // What is drawn first listens only after this frame; until then messages wait.
    if (heard) for (const message of early.splice(0)) heard(message);
    const took = performance.now() - begun;
    longest = Math.max(longest, took);
    if (view) firstDraw ??= took;
    if (answer) post({ type: "drawn" });
    answer = false;
  });
}

/** What was typed into the input of a session and not sent. */
export function draft(session: string): string {
  return vscode.getState()?.drafts[session] ?? "";
}

export function keepDraft(session: string, text: string): void {
  const drafts = { ...vscode.getState()?.drafts };
  if (text === "") delete drafts[session];
  else drafts[session] = text;
  vscode.setState({ ...vscode.getState(), drafts });
}

/** Where a session is read; nothing where its end is followed. */
export function place(session: string): Place | undefined {
  return vscode.getState()?.places?.[session];
}

export function keepPlace(session: string, at: Place | undefined): void {
  const state = vscode.getState();
  if (at === undefined && state?.places?.[session] === undefined) return;
  const { [session]: _old, ...others } = state?.places ?? {};
  const places =
    at === undefined ? others : Object.fromEntries([...Object.entries(others), [session, at]].slice(-MOST_PLACES));
  vscode.setState({ drafts: {}, ...state, places });
}

/** Takes the longest drawing so far, and begins anew. */
export function longestDraw(): number {
  const taken = longest;
  longest = 0;
  return taken;
}
