// The chat's view: its page, and the messages to and from it. The page may go at any time (hidden, window reloaded): it
// gets a snapshot when it comes, then patches, one at a time, each after the one before was drawn.

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
import type { ChatItem } from "./state";
import { diffViews } from "./viewPatch";
import type { Attachment, HostMessage, ViewMessage, ViewState } from "./webviewProtocol";

/** A frame; a patch is not sent sooner after the one before. */
const FRAME_INTERVAL_MS = 16;
/** So many entries of the conversation are enough for the first picture. */
const MIN_FIRST_ITEMS = 30;
/** A page that does not answer (it was hidden) holds nothing up for longer. */
const DRAW_TIMEOUT_MS = 2000;

export class ChatViewProvider implements WebviewViewProvider, Disposable {
  static readonly viewId = "agentls.chat";

  #view: WebviewView | undefined;
  /** What the page has; nothing before it is ready. */
  #sentState: ViewState | undefined;
  #patchTimer: NodeJS.Timeout | undefined;
  #isDrawn = true;
  #drawTimer: NodeJS.Timeout | undefined;
  /** What is attached and not sent, by session. */
  readonly #attachments = new Map<string, Attachment[]>();
  /** What is said once the page is there. */
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

  /** The state is another one: the page is told within a frame. */
  scheduleUpdate(): void {
    if (this.#sentState === undefined || this.#patchTimer !== undefined || !this.#isDrawn) return;
    this.#patchTimer = setTimeout(() => {
      this.#patchTimer = undefined;
      this.#sendPatch();
    }, FRAME_INTERVAL_MS);
  }

  /** Shows the view, puts text and attachments into its input and the focus there. */
  async composePrompt(attach: Attachment[], text?: string, replace = false): Promise<void> {
    await commands.executeCommand(`${ChatViewProvider.viewId}.focus`);
    this.#postWhenReady({ type: "compose", text, attach, replace });
  }

  async showPendingQuestion(): Promise<void> {
    await commands.executeCommand(`${ChatViewProvider.viewId}.focus`);
    this.#postWhenReady({ type: "showAsked" });
  }

  /** Gives text back to where it was typed, with what was attached to it. */
  restoreDraft(text: string, attach: readonly Attachment[] = []): void {
    this.#postWhenReady({ type: "compose", text, attach: [...attach], replace: false });
  }

  /** What stands above the view: the session that is shown. */
  setTitle(title: string): void {
    if (this.#view && this.#view.title !== title) this.#view.title = title;
  }

  /** A number at the view's icon. */
  setBadge(count: number, tooltip: string): void {
    // Each assignment goes to the workbench, so only what is new is assigned.
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
    // Before any patch, but after the end of a long session is on its way.
    if (before.length > 0) setImmediate(() => this.postMessage({ type: "before", items: before }));
    if (this.#attachments.size > 0)
      this.postMessage({ type: "attached", bySession: Object.fromEntries(this.#attachments) });
    for (const later of this.#queuedMessages.splice(0)) this.postMessage(later);
    this.onShown();
  }

  #sendPatch(): void {
    const now = this.getState();
    if (this.#sentState === undefined || this.#sentState === now) return;
    const ops = diffViews(this.#sentState, now);
    this.#sentState = now;
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

/** What of a long session is shown first: its last turns. The rest follows. */
export function splitLastTurns(view: ViewState): { last: ViewState; before: readonly ChatItem[] } {
  const items = view.chat?.items ?? [];
  const from = items.slice(0, -MIN_FIRST_ITEMS).findLastIndex(({ kind }) => kind === "user");
  if (view.chat === undefined || from <= 0) return { last: view, before: [] };
  return { last: { ...view, chat: { ...view.chat, items: items.slice(from) } }, before: items.slice(0, from) };
}
