// Owns the chat view: its HTML and the messages to and from it. The webview can disappear at any time, for example when
// it is hidden. When it loads, it gets a snapshot, then one patch at a time, each after the previous one is drawn.

import { randomBytes } from "node:crypto";
import {
  type CancellationToken,
  commands,
  type Disposable,
  Uri,
  type Webview,
  type WebviewView,
  type WebviewViewProvider,
  type WebviewViewResolveContext,
} from "vscode";
import type { Draft } from "./sentPrompts";
import type { ChatItem } from "./state";
import { diffViews } from "./viewPatch";
import type { Attachment, HostMessage, ViewMessage, ViewState } from "./webviewProtocol";

/** Minimum time between patches: one frame. */
const FRAME_INTERVAL_MS = 16;
/** Minimum number of items in the first snapshot. */
const MIN_FIRST_ITEMS = 30;
/** A hidden webview does not confirm drawing, so patches continue after this time. */
const DRAW_TIMEOUT_MS = 2000;

export class ChatViewProvider implements WebviewViewProvider, Disposable {
  static readonly viewId = "agentls.chat";

  #view: WebviewView | undefined;
  /** The state that the webview has. Undefined until the webview is ready. */
  #sentState: ViewState | undefined;
  #patchTimer: NodeJS.Timeout | undefined;
  #isDrawn = true;
  #drawTimer: NodeJS.Timeout | undefined;
  /** Attachments that are not sent yet, by session. */
  readonly #attachments = new Map<string, Attachment[]>();
  /** Messages to send when the webview is ready. */
  #queuedMessages: HostMessage[] = [];

  constructor(
    readonly extensionUri: Uri,
    readonly getState: () => ViewState,
    readonly onMessage: (message: ViewMessage) => void,
    readonly onShown: () => void,
  ) {}

  get isVisible(): boolean {
    return this.#view?.visible ?? false;
  }

  resolveWebviewView(view: WebviewView, _context: WebviewViewResolveContext, _token: CancellationToken): void {
    this.#view = view;
    this.#sentState = undefined;
    view.webview.options = {
      enableScripts: true,
      localResourceRoots: [Uri.joinPath(this.extensionUri, "out"), Uri.joinPath(this.extensionUri, "media")],
    };
    view.webview.onDidReceiveMessage((message: ViewMessage) => this.#onViewMessage(message));
    view.onDidChangeVisibility(() => {
      if (!view.visible) this.#resetView();
      this.onShown();
    });
    view.onDidDispose(() => {
      this.#view = undefined;
      this.#resetView();
    });
    view.webview.html = this.#renderHtml(view.webview);
  }

  scheduleUpdate(): void {
    if (this.#sentState === undefined || this.#patchTimer !== undefined || !this.#isDrawn) return;
    this.#patchTimer = setTimeout(() => {
      this.#patchTimer = undefined;
      this.#sendPatch();
    }, FRAME_INTERVAL_MS);
  }

  /** Shows the view, fills its input, and moves the focus there. */
  async composePrompt(attach: Attachment[], text?: string, replace = false): Promise<void> {
    await commands.executeCommand(`${ChatViewProvider.viewId}.focus`);
    this.#postWhenReady({ type: "compose", text, attach, replace, isWanted: true });
  }

  async showPendingQuestion(): Promise<void> {
    await commands.executeCommand(`${ChatViewProvider.viewId}.focus`);
    this.#postWhenReady({ type: "showOpenQuestion" });
  }

  /** Moves the focus from a closed review back to the chat. */
  async returnFocus(approvalId: string, isDecided: boolean): Promise<void> {
    await commands.executeCommand(`${ChatViewProvider.viewId}.focus`);
    this.#postWhenReady({ type: "returnFocus", approvalId, isDecided });
  }

  /** Puts a draft back into the input of its session. */
  restoreDraft(session = "", { text, attach }: Draft): void {
    this.#postWhenReady({ type: "compose", session, text, attach: [...attach], replace: false, isWanted: false });
  }

  setTitle(title: string): void {
    if (this.#view && this.#view.title !== title) this.#view.title = title;
  }

  setBadge(count: number, tooltip: string): void {
    // Each assignment is sent to the workbench, so skip assignments that change nothing.
    if (!this.#view || (this.#view.badge?.value ?? 0) === count) return;
    this.#view.badge = count === 0 ? undefined : { value: count, tooltip };
  }

  postMessage(message: HostMessage): void {
    void this.#view?.webview.postMessage(message);
  }

  dispose(): void {
    this.#resetView();
  }

  #postWhenReady(message: HostMessage): void {
    if (this.#sentState === undefined) this.#queuedMessages.push(message);
    else this.postMessage(message);
  }

  #onViewMessage(message: ViewMessage): void {
    if (message.type === "drawn") this.#onDrawn();
    else if (message.type === "ready") this.#onViewReady();
    else if (message.type === "attached") this.#storeAttachments(message.session, message.attach);
    else this.onMessage(message);
  }

  #storeAttachments(session: string, attach: Attachment[]): void {
    if (attach.length === 0) this.#attachments.delete(session);
    else this.#attachments.set(session, attach);
  }

  #onViewReady(): void {
    this.#resetView();
    this.#sentState = this.getState();
    const { last, before } = splitLastTurns(this.#sentState);
    this.postMessage({ type: "snapshot", view: last });
    // Send the older items after the snapshot is on its way, but before any patch.
    if (before.length > 0) setImmediate(() => this.postMessage({ type: "before", items: before }));
    if (this.#attachments.size > 0)
      this.postMessage({ type: "attached", bySession: Object.fromEntries(this.#attachments) });
    for (const queued of this.#queuedMessages.splice(0)) this.postMessage(queued);
    this.onShown();
  }

  #sendPatch(): void {
    const current = this.getState();
    if (this.#sentState === undefined || this.#sentState === current) return;
    const ops = diffViews(this.#sentState, current);
    this.#sentState = current;
    if (ops.length === 0) return;
    this.#isDrawn = false;
    this.#drawTimer = setTimeout(() => this.#onDrawn(), DRAW_TIMEOUT_MS);
    this.postMessage({ type: "patch", ops });
  }

  #onDrawn(): void {
    clearTimeout(this.#drawTimer);
    this.#isDrawn = true;
    if (this.#sentState !== undefined && this.#sentState !== this.getState()) this.scheduleUpdate();
  }

  #resetView(): void {
    clearTimeout(this.#patchTimer);
    clearTimeout(this.#drawTimer);
    this.#patchTimer = undefined;
    this.#sentState = undefined;
    this.#isDrawn = true;
  }

  #renderHtml(webview: Webview): string {
    const nonce = randomBytes(16).toString("base64");
    const toWebviewUri = (name: string) =>
      webview.asWebviewUri(Uri.joinPath(this.extensionUri, "out", name)).toString();
    const policy = [
      "default-src 'none'",
      `script-src 'nonce-${nonce}'`,
      `style-src ${webview.cspSource}`,
      "img-src data:",
      "base-uri 'none'",
      "form-action 'none'",
    ].join("; ");
    return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="${toWebviewUri("style.css")}">
<title>agentls</title>
</head>
<body>
<div id="root"></div>
<script nonce="${nonce}" src="${toWebviewUri("view.js")}"></script>
</body>
</html>`;
  }
}

/** Splits a long session so that its last turns appear first. */
export function splitLastTurns(view: ViewState): { last: ViewState; before: readonly ChatItem[] } {
  const items = view.chat?.items ?? [];
  const from = items.slice(0, -MIN_FIRST_ITEMS).findLastIndex(({ kind }) => kind === "user");
  if (view.chat === undefined || from <= 0) return { last: view, before: [] };
  return { last: { ...view, chat: { ...view.chat, items: items.slice(from) } }, before: items.slice(0, from) };
}
