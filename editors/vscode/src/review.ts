// The diff editor for what the agent proposes and for what it has done.
//
// A proposed edit is shown with the file as it is at the left and the proposal at the right. The right side can be
// edited: VS Code's own arrows take a hunk back, so does a command for the keyboard, and any other change is welcome.
// Every way to allow the call sends what the right side contains at that moment (decisions.ts asks `outcome`). The
// changes outlive the editor's tab: only `discard`, a denial, or the end of the question drops them.
// A done edit is shown with the file itself at the right, so that taking a hunk back is an edit like any other.

import {
  commands,
  type Disposable,
  Range,
  type Tab,
  type TabInputTextDiff,
  type TextDocument,
  Uri,
  window,
  workspace,
} from "vscode";
import type { Chat } from "./chat";
import { notificationText, reveal } from "./format";
import { hunkAt, hunks, patched, reviewDifference, reviewDifferenceLine, toEdits, unpatched, withEdits } from "./hunks";
import { MemoryFiles } from "./memoryFileSystem";
import type { ApprovalRequestedNotification } from "./protocol";
import type { State, ToolItem } from "./state";
import type { ReviewSummary } from "./webviewProtocol";

export const REVIEW = "agentls-review";
export const TEXT = "agentls-text";

/** A review is measured this long after the last change of its text. */
const SETTLED_MS = 100;

/** Where the approvals are kept whose review has changes: after a reload none of them is answered unreviewed. */
const CHANGED = "changedReviews";
const MOST_KEPT = 100;

interface Review {
  sessionId: string;
  approval: ApprovalRequestedNotification;
  file: Uri;
  left: Uri;
  right: Uri;
  before: string;
  /** The proposal, as the editor shows it when nothing was changed. */
  proposal: string;
}

/** What the review of a call means for its approval. */
export type ReviewOutcome =
  /** There is no review, or it shows the proposal. */
  | { kind: "none" }
  | { kind: "unchanged" }
  /** The call runs with these arguments. */
  | { kind: "edited"; input: unknown }
  /** What the review shows cannot be sent. */
  | { kind: "refused"; message: string };

export class Reviews implements Disposable {
  readonly #files = new MemoryFiles();
  /** By the ids of their approvals. */
  readonly #reviews = new Map<string, Review>();
  readonly #closing = new Map<string, Promise<void>>();
  readonly #disposables: Disposable[];
  /** Approvals whose review had changes when the window was reloaded, and was not opened since. */
  readonly #lost: Set<string>;
  #measuring: NodeJS.Timeout | undefined;
  #opened = 0;

  constructor(readonly chat: Chat) {
    this.#lost = new Set(JSON.parse(chat.memory.get(CHANGED) ?? "[]") as string[]);
    this.#disposables = [
      workspace.registerFileSystemProvider(REVIEW, this.#files, { isCaseSensitive: true }),
      workspace.registerTextDocumentContentProvider(TEXT, {
        provideTextDocumentContent: (uri) => this.#files.text(uri),
      }),
      workspace.onDidChangeTextDocument(({ document }) => {
        if (document.uri.scheme !== REVIEW) return;
        clearTimeout(this.#measuring);
        this.#measuring = setTimeout(() => this.#report(), SETTLED_MS);
      }),
    ];
  }

  dispose(): void {
    clearTimeout(this.#measuring);
    for (const disposable of this.#disposables) disposable.dispose();
  }

  /** The open approval whose review is in the active editor. */
  get active(): ApprovalRequestedNotification | undefined {
    return this.#active()?.review.approval;
  }

  /** Opens the diff editor of an open approval; a review that was begun goes on. */
  async propose(approvalId: string): Promise<void> {
    const approval = this.chat.shown?.approvals.find((open) => open.approvalId === approvalId);
    if (approval?.diff === undefined) {
      await window.showInformationMessage("The question that is shown proposes no edit.");
      return;
    }
    const begun = this.#reviews.get(approvalId);
    if (begun) {
      const stale = (await textOf(begun.file)) !== begun.before;
      if (!stale) return this.#open(begun);
      if (reviewedText(begun, this.#text(begun)) !== begun.proposal && !(await this.#mayDiscard(begun, true))) return;
      await this.close(approvalId);
    }
    const review = await this.#prepare(approval);
    if (review === undefined) return;
    this.#reviews.set(approvalId, review);
    this.#lost.delete(approvalId);
    await commands.executeCommand("setContext", "agentls.reviewing", true);
    await this.#open(review);
    const hidden = hiddenCharacters(review);
    if (hidden !== "")
      await window.showWarningMessage(`The proposal adds characters that an editor may hide: ${hidden}`);
  }

  /** What an approval sends, at this moment. */
  async outcome(approval: ApprovalRequestedNotification): Promise<ReviewOutcome> {
    const review = this.#reviews.get(approval.approvalId);
    if (review === undefined) {
      const { approvalId } = approval;
      if (!this.#lost.has(approvalId) && tabsOf(approvalId).length === 0) return { kind: "none" };
      return refused("The review of this edit is from before the window was reloaded. Open the review again (D).");
    }
    // Read before anything is awaited: what counts is what was shown when the key was pressed.
    const shown = reviewedText(review, this.#text(review));
    const name = notificationText(review.file.fsPath);
    if ((await textOf(review.file)) !== review.before) {
      return refused(`${name} has changed since its review was opened. Open the review again (D) before you allow it.`);
    }
    if (shown === review.proposal) return { kind: "unchanged" };
    if (shown === review.before) return refused("The review leaves all changes out. Deny the edit instead.");
    const input = await this.#input(approval);
    const edited = input && editedInput(approval.name, input, review.before, shown);
    if (edited === undefined) {
      return refused("The arguments of this call cannot be read in full, so the reviewed version cannot be sent.");
    }
    return { kind: "edited", input: edited };
  }

  /** Drops the changes of a review, after asking. */
  async discard(approvalId: string): Promise<void> {
    const review = this.#reviews.get(approvalId);
    if (review && (await this.#mayDiscard(review, false))) await this.close(approvalId);
  }

  /** Puts the old lines back in the place of the hunk at the cursor. */
  async rejectHunk(): Promise<void> {
    const found = this.#active();
    const editor = window.visibleTextEditors.find((one) => one.document === found?.document);
    if (!found || !editor) return;
    const list = hunks(found.review.before, found.document.getText());
    const hunk =
      hunkAt(list, editor.selection.active.line) ?? list.find((one) => one.newStart >= editor.selection.active.line);
    if (!hunk) return;
    await editor.edit((builder) => {
      builder.replace(new Range(hunk.newStart, 0, hunk.newStart + hunk.new.length, 0), hunk.old.join(""));
    });
  }

  /** Shows an edit that was made: as it was, and the file itself. */
  async done(toolCallId: string): Promise<void> {
    const tool = this.chat.shown?.items.find(
      (item): item is ToolItem => item.kind === "tool" && item.id === toolCallId,
    );
    if (tool?.approval) return this.propose(tool.approval.approvalId);
    const where = tool?.locations?.[0]?.uri;
    const diff = tool && (await this.#whole(tool.diff, tool.more?.["diff"]?.ref));
    if (where === undefined || diff === undefined) return;
    const uri = Uri.parse(where);
    const name = uri.path.split("/").pop() ?? "file";
    const before = unpatched(await textOf(uri), diff);
    if (before === undefined) {
      await this.text(`${name}.diff`, diff);
      return;
    }
    const left = Uri.from({ scheme: TEXT, path: `/was/${toolCallId}/${name}` });
    this.#files.put(left, before);
    await commands.executeCommand("vscode.diff", left, uri, `${name}: what the agent changed`, { preview: true });
  }

  /** A text that is no file, to be shown at a side of a diff. */
  virtual(path: string, which: string, text: string): Uri {
    const uri = Uri.from({ scheme: TEXT, path, query: which });
    this.#files.put(uri, text);
    return uri;
  }

  /** Shows a text that is no file. */
  async text(name: string, text: string): Promise<void> {
    const uri = Uri.from({ scheme: TEXT, path: `/${Date.now()}/${name.replace(/[/\\]/g, " ").slice(0, 60)}` });
    this.#files.put(uri, text);
    await window.showTextDocument(await workspace.openTextDocument(uri), { preview: true });
  }

  /** The approval was settled, or its review discarded: its editor closes. */
  close(approvalId: string): Promise<void> {
    // The answer and the event about it both close it.
    const closing = this.#closing.get(approvalId) ?? this.#close(approvalId);
    this.#closing.set(approvalId, closing);
    return closing.finally(() => this.#closing.delete(approvalId));
  }

  async #close(approvalId: string): Promise<void> {
    const review = this.#reviews.get(approvalId);
    this.#reviews.delete(approvalId);
    this.#lost.delete(approvalId);
    await closeTabs(approvalId);
    if (review) this.#files.remove(review.left, review.right);
    if (this.#reviews.size === 0) await commands.executeCommand("setContext", "agentls.reviewing", false);
    this.#report();
  }

  async #prepare(approval: ApprovalRequestedNotification): Promise<Review | undefined> {
    const { approvalId, sessionId } = approval;
    const tool = this.chat.shown?.items.find(
      (item): item is ToolItem => item.kind === "tool" && item.id === approval.toolCallId,
    );
    const file = target(approval, tool);
    const before = await textOf(file);
    const proposal = await this.#proposal(approval, before);
    if (proposal === undefined) {
      await window.showWarningMessage(`The proposed edit does not fit ${notificationText(file.fsPath)} as it is now.`);
      return undefined;
    }
    const name = file.path.split("/").pop() ?? "file";
    const left = Uri.from({ scheme: TEXT, path: `/before/${approvalId}/${name}` });
    // Each review has a document of its own: one that was closed may live on with its old text. Its path is the
    // file's: Quick Open also lists the paths of changed documents, and takes them for files.
    this.#opened += 1;
    const right = Uri.from({ scheme: REVIEW, authority: `${approvalId}.${this.#opened}`, path: file.path });
    this.#files.put(left, before);
    this.#files.put(right, proposal);
    // A tab from before the last reload may show an older text.
    await closeTabs(approvalId);
    // Compared is what the editor makes of the text: line ends may differ.
    const document = await workspace.openTextDocument(right);
    return { sessionId, approval, file, left, right, before, proposal: document.getText() };
  }

  async #open({ left, right, file }: Review): Promise<void> {
    const name = file.path.split("/").pop() ?? "file";
    await commands.executeCommand("vscode.diff", left, right, `${name}: what the agent proposes`, { preview: true });
  }

  async #mayDiscard(review: Review, stale: boolean): Promise<boolean> {
    const name = notificationText(review.file.fsPath);
    const question = stale
      ? `${name} has changed since you reviewed the edit. Start the review over? Your changes in it are lost.`
      : `Discard your changes in the review of ${name}? The question then asks about the agent's proposal again.`;
    const action = stale ? "Start Over" : "Discard";
    return (await window.showWarningMessage(question, { modal: true }, action)) === action;
  }

  /** What the review contains: in its document, or, when that is closed, as it was saved. */
  #text({ right }: Review): string {
    return documentOf(right)?.getText() ?? this.#files.text(right);
  }

  /** Tells the page how the reviews differ from the proposals. */
  #report(): void {
    const reviews: Record<string, ReviewSummary> = {};
    for (const [approvalId, review] of this.#reviews) {
      const shown = reviewedText(review, this.#text(review));
      const same = shown === review.proposal;
      const difference = same ? "" : reviewDifferenceLine(reviewDifference(review.before, review.proposal, shown));
      reviews[approvalId] = { difference: same ? "" : difference || "changed by you" };
    }
    if (JSON.stringify(reviews) !== JSON.stringify(this.chat.view.reviews)) this.chat.set({ reviews });
    const changed = Object.entries(reviews).flatMap(([id, { difference }]) => (difference === "" ? [] : [id]));
    const kept = JSON.stringify([...this.#lost, ...changed].slice(-MOST_KEPT));
    if (kept !== (this.chat.memory.get(CHANGED) ?? "[]")) this.chat.memory.set(CHANGED, kept);
  }

  async #proposal(approval: ApprovalRequestedNotification, before: string): Promise<string | undefined> {
    const input = (await this.#input(approval)) as { content?: unknown; edits?: unknown } | undefined;
    if (approval.name === "write_file" && typeof input?.content === "string") return input.content;
    if (approval.name === "edit_file" && Array.isArray(input?.edits)) {
      const edited = withEdits(before.replaceAll("\r\n", "\n"), input.edits);
      if (edited !== undefined) return before.includes("\r\n") ? edited.replaceAll("\n", "\r\n") : edited;
    }
    // The diff has its hidden characters written out, so it serves only where the arguments do not.
    const diff = await this.#whole(approval.diff, approval.more?.["diff"]?.ref);
    return diff === undefined ? undefined : patched(before, diff);
  }

  /** The arguments of the call, whole. */
  async #input(approval: ApprovalRequestedNotification): Promise<Record<string, unknown> | undefined> {
    const ref = approval.more?.["input"]?.ref;
    if (ref === undefined) return approval.input as Record<string, unknown>;
    try {
      const whole: unknown = JSON.parse((await this.chat.content(approval.sessionId, ref)) ?? "");
      return typeof whole === "object" && whole !== null ? (whole as Record<string, unknown>) : undefined;
    } catch {
      return undefined;
    }
  }

  async #whole(text: string | undefined, ref: string | undefined): Promise<string | undefined> {
    const sessionId = this.chat.shown?.sessionId;
    return ref === undefined || sessionId === undefined ? text : this.chat.content(sessionId, ref);
  }

  #active(): { review: Review; document: TextDocument } | undefined {
    const tab = window.tabGroups.activeTabGroup.activeTab?.input as Partial<TabInputTextDiff> | undefined;
    const uri = (tab?.modified ?? window.activeTextEditor?.document.uri)?.toString();
    const review = [...this.#reviews.values()].find(({ right }) => right.toString() === uri);
    const document = review && documentOf(review.right);
    return review && document && { review, document };
  }
}

function refused(message: string): ReviewOutcome {
  return { kind: "refused", message };
}

function documentOf(uri: Uri): TextDocument | undefined {
  return workspace.textDocuments.find((one) => !one.isClosed && one.uri.toString() === uri.toString());
}

/** The tabs that show the review of an approval. */
function tabsOf(approvalId: string): Tab[] {
  return window.tabGroups.all
    .flatMap(({ tabs }) => tabs)
    .filter((tab) => {
      const shown = shownIn(tab);
      return shown?.scheme === REVIEW && shown.authority.startsWith(`${approvalId}.`);
    });
}

/** Closes the review of an approval without a question. */
async function closeTabs(approvalId: string): Promise<void> {
  const tabs = tabsOf(approvalId);
  for (const tab of tabs) {
    const uri = shownIn(tab);
    const document = uri && documentOf(uri);
    if (document?.isDirty) await document.save();
  }
  await window.tabGroups.close(tabs);
}

function shownIn({ input }: Tab): Uri | undefined {
  const { modified, uri } = (input ?? {}) as Partial<TabInputTextDiff & { uri: Uri }>;
  return modified ?? uri;
}

/** The text of a review; line ends alone are no change. */
function reviewedText({ before, proposal }: Review, text: string): string {
  const plain = (one: string) => one.replace(/\r\n?/g, "\n");
  if (plain(text) === plain(proposal)) return proposal;
  return plain(text) === plain(before) ? before : text;
}

/** Hidden characters in the lines that the proposal adds, in words. */
function hiddenCharacters({ before, proposal }: Review): string {
  const found = hunks(before, proposal).flatMap((hunk) =>
    hunk.new.flatMap((line, at) =>
      [...reveal(line).matchAll(/<(U\+[0-9A-F]{4,6})>/g)]
        .filter(([written]) => !line.includes(written))
        .map(([, name]) => `${name} in line ${hunk.newStart + at + 1}`),
    ),
  );
  const more = found.length > 5 ? `, and ${found.length - 5} more` : "";
  return found.slice(0, 5).join(", ") + more;
}

/** The arguments that lead to `after`. */
function editedInput(name: string, input: Record<string, unknown>, before: string, after: string): unknown {
  const lines = (text: string) => text.replaceAll("\r\n", "\n");
  if (typeof input["path"] !== "string") return undefined;
  if (name === "edit_file") return { path: input["path"], edits: toEdits(lines(before), lines(after)) };
  return name === "write_file" ? { ...input, content: lines(after) } : undefined;
}

function target(approval: ApprovalRequestedNotification, tool: ToolItem | undefined): Uri {
  const where = tool?.locations?.[0]?.uri;
  if (where !== undefined) return Uri.parse(where);
  const { path = "" } = approval.input as { path?: string };
  return fileOf(path, approval.cwd);
}

/** A path as the agent writes it: absolute, of the working folder, or `rootName/path` of another. */
export function fileOf(path: string, cwd: string): Uri {
  if (/^([/\\]|[A-Za-z]:)/.test(path)) return Uri.file(path);
  const [root, ...rest] = path.split("/");
  const folder = workspace.workspaceFolders?.find((one) => one.name === root && one.uri.fsPath !== cwd);
  return folder ? Uri.joinPath(folder.uri, ...rest) : Uri.joinPath(Uri.file(cwd), path);
}

/** The folder that the paths of a session are of. */
export function folderOf(state: State | undefined): string {
  return state?.cwd ?? workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
}

/** The file with its unsaved text; empty if there is none. */
export async function textOf(uri: Uri): Promise<string> {
  try {
    return (await workspace.openTextDocument(uri)).getText();
  } catch {
    return "";
  }
}
