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
import type { Item } from "./state";
import { diff } from "./viewPatch";
import type { Attachment, FromView, ToView, ViewState } from "./webviewProtocol";

/** A frame; a patch is not sent sooner after the one before. */
const FRAME_MS = 16;
/** So many entries of the conversation are enough for the first picture. */
const SHOWN_FIRST = 30;
/** A page that does not answer (it was hidden) holds nothing up for longer. */
const SILENT_MS = 2000;

export class Panel implements WebviewViewProvider, Disposable {
  static readonly id = "agentls.chat";

  #view: WebviewView | undefined;
  /** What the page has; nothing before it is ready. */
  #sent: ViewState | undefined;
  #waiting: NodeJS.Timeout | undefined;
  #drawn = true;
  #silent: NodeJS.Timeout | undefined;
  /** What is attached and not sent, by session. */
  readonly #attached = new Map<string, Attachment[]>();
  /** What is said once the page is there. */
  #later: ToView[] = [];

  constructor(
    readonly extension: Uri,
    readonly state: () => ViewState,
    readonly handle: (message: FromView) => void,
    readonly shown: () => void,
  ) {}

  get visible(): boolean {
    return this.#view?.visible ?? false;
  }

  resolveWebviewView(view: WebviewView, _context: WebviewViewResolveContext, _token: CancellationToken): void {
    this.#view = view;
    this.#sent = undefined;
    view.webview.options = {
      enableScripts: true,
      localResourceRoots: [Uri.joinPath(this.extension, "out"), Uri.joinPath(this.extension, "media")],
    };
    view.webview.onDidReceiveMessage((message: FromView) => this.#received(message));
    view.onDidChangeVisibility(() => {
      if (!view.visible) this.#gone();
      this.shown();
    });
    view.onDidDispose(() => {
      this.#view = undefined;
      this.#gone();
    });
    view.webview.html = this.#html(view.webview);
  }

  /** The state is another one: the page is told within a frame. */
  changed(): void {
    if (this.#sent === undefined || this.#waiting !== undefined || !this.#drawn) return;
    this.#waiting = setTimeout(() => {
      this.#waiting = undefined;
      this.#patch();
    }, FRAME_MS);
  }

  /** Shows the view, puts text and attachments into its input and the focus there. */
  async compose(attach: Attachment[], text?: string, replace = false): Promise<void> {
    await commands.executeCommand(`${Panel.id}.focus`);
    this.#say({ type: "compose", text, attach, replace });
  }

  async showAsked(): Promise<void> {
    await commands.executeCommand(`${Panel.id}.focus`);
    this.#say({ type: "showAsked" });
  }

  /** Gives text back to where it was typed, with what was attached to it. */
  giveBack(text: string, attach: readonly Attachment[] = []): void {
    this.#say({ type: "compose", text, attach: [...attach], replace: false });
  }

  /** What stands above the view: the session that is shown. */
  title(title: string): void {
    if (this.#view && this.#view.title !== title) this.#view.title = title;
  }

  /** A number at the view's icon. */
  badge(count: number, tooltip: string): void {
    // Each assignment goes to the workbench, so only what is new is assigned.
    if (!this.#view || (this.#view.badge?.value ?? 0) === count) return;
    this.#view.badge = count === 0 ? undefined : { value: count, tooltip };
  }

  post(message: ToView): void {
    void this.#view?.webview.postMessage(message);
  }

  dispose(): void {
    this.#gone();
  }

  #say(message: ToView): void {
    if (this.#sent === undefined) this.#later.push(message);
    else this.post(message);
  }

  #received(message: FromView): void {
    if (message.type === "drawn") this.#wasDrawn();
    else if (message.type === "ready") this.#ready();
    else if (message.type === "attached") this.#keepAttached(message.session, message.attach);
    else this.handle(message);
  }

  #keepAttached(session: string, attach: Attachment[]): void {
    if (attach.length === 0) this.#attached.delete(session);
    else this.#attached.set(session, attach);
  }

  #ready(): void {
    this.#gone();
    this.#sent = this.state();
    const { last, before } = lastTurns(this.#sent);
    this.post({ type: "snapshot", view: last });
    // Before any patch, but after the end of a long session is on its way.
    if (before.length > 0) setImmediate(() => this.post({ type: "before", items: before }));
    if (this.#attached.size > 0) this.post({ type: "attached", bySession: Object.fromEntries(this.#attached) });
    for (const later of this.#later.splice(0)) this.post(later);
    this.shown();
  }

  #patch(): void {
    const now = this.state();
    if (this.#sent === undefined || this.#sent === now) return;
    const ops = diff(this.#sent, now);
    this.#sent = now;
    if (ops.length === 0) return;
    this.#drawn = false;
    this.#silent = setTimeout(() => this.#wasDrawn(), SILENT_MS);
    this.post({ type: "patch", ops });
  }

  #wasDrawn(): void {
    clearTimeout(this.#silent);
    this.#drawn = true;
    if (this.#sent !== undefined && this.#sent !== this.state()) this.changed();
  }

  #gone(): void {
    clearTimeout(this.#waiting);
    clearTimeout(this.#silent);
    this.#waiting = undefined;
    this.#sent = undefined;
    this.#drawn = true;
  }

  #html(webview: Webview): string {
    const nonce = randomBytes(16).toString("base64");
    const file = (name: string) => webview.asWebviewUri(Uri.joinPath(this.extension, "out", name)).toString();
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
<link rel="stylesheet" href="${file("style.css")}">
<title>agentls</title>
</head>
<body>
<div id="root"></div>
<script nonce="${nonce}" src="${file("view.js")}"></script>
</body>
</html>`;
  }
}

/** What of a long session is shown first: its last turns. The rest follows. */
export function lastTurns(view: ViewState): { last: ViewState; before: readonly Item[] } {
  const items = view.chat?.items ?? [];
  const from = items.slice(0, -SHOWN_FIRST).findLastIndex(({ kind }) => kind === "user");
  if (view.chat === undefined || from <= 0) return { last: view, before: [] };
  return { last: { ...view, chat: { ...view.chat, items: items.slice(from) } }, before: items.slice(0, from) };
}
