// Owns the diff editors for proposed and completed edits.
//
// A proposed edit shows the current file on the left and the proposal on the right. The user can edit the right side,
// or reject hunks with VS Code's arrows or a command. Every way to allow the call sends the right side as it is at that
// moment (decisions.ts calls `getOutcome`). The changes survive closing the tab: only a discard, a denial, or the end
// of the request drops them. A completed edit shows the file itself on the right, so undoing a hunk is a normal edit.

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
import { escapeLabel, escapeNotification, revealHidden } from "./format";
import {
  applyDiff,
  applyEdits,
  buildEdits,
  buildPatch,
  compareReview,
  computeHunks,
  createDiff,
  describeDifference,
  type FilePatch,
  findHunkAtLine,
  reverseDiff,
  splitDiff,
} from "./hunks";
import { MemoryFileSystem } from "./memoryFileSystem";
import type { ApprovalRequestedNotification } from "./protocol";
import type { ChatState, ToolItem } from "./state";
import type { ReviewSummary } from "./webviewProtocol";

export const REVIEW_SCHEME = "agentls-review";
export const TEXT_SCHEME = "agentls-text";

/** Delay between the last edit and the report of differences. */
const REPORT_DELAY_MS = 100;

/** Stores the approvals whose review has changes, so that a reload cannot lead to an unreviewed answer. */
const CHANGED_REVIEWS_KEY = "changedReviews";
const MAX_REMEMBERED_REVIEWS = 100;
/** A tab that closes because another one takes its place leaves the focus there. It opens within this time. */
const REPLACE_DELAY_MS = 50;

interface Review {
  sessionId: string;
  approval: ApprovalRequestedNotification;
  file: Uri;
  leftUri: Uri;
  rightUri: Uri;
  before: string;
  /** The proposal as the editor normalizes it. */
  proposal: string;
  /** Opened from the chat, which gets the focus back. */
  isFromChat: boolean;
  /** The user's answer is on its way. */
  isDecided: boolean;
}

export type ReviewOutcome =
  /** There is no review. */
  | { kind: "none" }
  | { kind: "unchanged" }
  /** The call runs with these arguments. */
  | { kind: "edited"; input: unknown; diff: string }
  /** The reviewed version cannot be sent. */
  | { kind: "refused"; message: string };

export class ReviewManager implements Disposable {
  readonly #fileSystem = new MemoryFileSystem();
  /** By approval id. */
  readonly #reviews = new Map<string, Review>();
  readonly #closing = new Map<string, Promise<void>>();
  readonly #disposables: Disposable[];
  /** What shows proposals for several files, by approval id. */
  readonly #overviews = new Map<string, Uri[]>();
  /** Approvals whose review had changes before a window reload and was not reopened. */
  readonly #staleAfterReload: Set<string>;
  #reportTimer: NodeJS.Timeout | undefined;
  #openCount = 0;
  #openedTabs = 0;

  /** `returnFocus` moves the focus to the chat after a review that was opened there. */
  constructor(
    readonly chat: Chat,
    readonly returnFocus: (approvalId: string, isDecided: boolean) => void = () => {},
  ) {
    this.#staleAfterReload = new Set(JSON.parse(chat.memory.get(CHANGED_REVIEWS_KEY) ?? "[]") as string[]);
    this.#disposables = [
      workspace.registerFileSystemProvider(REVIEW_SCHEME, this.#fileSystem, { isCaseSensitive: true }),
      workspace.registerTextDocumentContentProvider(TEXT_SCHEME, {
        provideTextDocumentContent: (uri) => this.#fileSystem.readText(uri),
      }),
      workspace.onDidChangeTextDocument(({ document }) => {
        if (document.uri.scheme !== REVIEW_SCHEME) return;
        clearTimeout(this.#reportTimer);
        this.#reportTimer = setTimeout(() => this.#reportDifferences(), REPORT_DELAY_MS);
      }),
      window.tabGroups.onDidChangeTabs(({ opened, closed }) => {
        this.#openedTabs += opened.length;
        for (const tab of closed) this.#onTabClosed(tab);
      }),
    ];
  }

  dispose(): void {
    clearTimeout(this.#reportTimer);
    for (const disposable of this.#disposables) disposable.dispose();
  }

  get activeApproval(): ApprovalRequestedNotification | undefined {
    return this.#findActiveReview()?.review.approval;
  }

  /** Opens the diff editor of an approval. Continues an existing review. */
  async openReview(approvalId: string, isFromChat = false): Promise<void> {
    const approval = this.chat.activeSession?.approvals.find((open) => open.approvalId === approvalId);
    if (approval?.diff === undefined) {
      await window.showInformationMessage("The pending request does not propose an edit.");
      return;
    }
    const existing = this.#reviews.get(approvalId);
    if (existing) {
      const isStale = (await readFileText(existing.file)) !== existing.before;
      existing.isFromChat = isFromChat;
      if (!isStale) return this.#openDiffEditor(existing);
      if (
        normalizeReviewText(existing, this.#getReviewText(existing)) !== existing.proposal &&
        !(await this.#confirmDiscard(existing, true))
      )
        return;
      await this.closeReview(approvalId);
    }
    const review = await this.#prepareReview(approval);
    if (review === undefined) return;
    review.isFromChat = isFromChat;
    this.#reviews.set(approvalId, review);
    this.#staleAfterReload.delete(approvalId);
    await commands.executeCommand("setContext", "agentls.reviewing", true);
    await this.#openDiffEditor(review);
    const hidden = describeHiddenCharacters(review);
    if (hidden !== "")
      await window.showWarningMessage(`The proposed edit adds characters that may be invisible: ${hidden}`);
  }

  /** Returns what an approval sends at this moment. */
  async getOutcome(approval: ApprovalRequestedNotification): Promise<ReviewOutcome> {
    const review = this.#reviews.get(approval.approvalId);
    if (review === undefined) {
      const { approvalId } = approval;
      if (!this.#staleAfterReload.has(approvalId) && findReviewTabs(approvalId).length === 0) return { kind: "none" };
      return refuseOutcome("This review was opened before the window was reloaded. Press D to open it again.");
    }
    // Read the text before any await: the key press applies to what was shown then.
    const reviewText = normalizeReviewText(review, this.#getReviewText(review));
    const name = escapeNotification(review.file.fsPath);
    if ((await readFileText(review.file)) !== review.before) {
      return refuseOutcome(`${name} has changed since its review was opened. Press D to open the review again.`);
    }
    if (reviewText === review.proposal) return { kind: "unchanged" };
    if (reviewText === review.before) return refuseOutcome("All hunks are rejected. Deny the edit instead.");
    const input = await this.#readInput(approval);
    const edited = input && buildEditedInput(approval.name, input, review.before, reviewText);
    if (edited === undefined) {
      return refuseOutcome(
        "The reviewed version cannot be sent as arguments of this call. Undo your changes, or deny the call.",
      );
    }
    return { kind: "edited", input: edited, diff: createDiff(review.file.path, review.before, reviewText) };
  }

  /** Drops the changes of a review after confirmation. */
  async discardReview(approvalId: string): Promise<void> {
    const review = this.#reviews.get(approvalId);
    if (review && (await this.#confirmDiscard(review, false))) await this.closeReview(approvalId);
  }

  async rejectHunk(): Promise<void> {
    const active = this.#findActiveReview();
    const editor = window.visibleTextEditors.find((candidate) => candidate.document === active?.document);
    if (!active || !editor) return;
    const list = computeHunks(active.review.before, active.document.getText());
    const hunk =
      findHunkAtLine(list, editor.selection.active.line) ??
      list.find((candidate) => candidate.newStart >= editor.selection.active.line);
    if (!hunk) return;
    await editor.edit((builder) => {
      builder.replace(new Range(hunk.newStart, 0, hunk.newStart + hunk.new.length, 0), hunk.old.join(""));
    });
  }

  /** Shows the file before a completed edit next to the current file. */
  async showCompletedEdit(toolCallId: string): Promise<void> {
    const tool = this.chat.activeSession?.items.find(
      (item): item is ToolItem => item.kind === "tool" && item.id === toolCallId,
    );
    if (tool?.approval) return this.openReview(tool.approval.approvalId);
    const targetUri = tool?.locations?.[0]?.uri;
    const diff = tool && (await this.#readFullText(tool.diff, tool.more?.["diff"]?.ref));
    if (targetUri === undefined || diff === undefined) return;
    const uri = Uri.parse(targetUri);
    const name = uri.path.split("/").pop() ?? "file";
    const before = reverseDiff(await readFileText(uri), diff);
    if (before === undefined) {
      await this.showText(`${name}.diff`, diff);
      return;
    }
    const leftUri = Uri.from({ scheme: TEXT_SCHEME, path: `/was/${toolCallId}/${name}` });
    this.#fileSystem.putText(leftUri, before);
    await commands.executeCommand("vscode.diff", leftUri, uri, `${name} (agent's changes)`, { preview: true });
  }

  createVirtualFile(path: string, label: string, text: string): Uri {
    const uri = Uri.from({ scheme: TEXT_SCHEME, path, query: label });
    this.#fileSystem.putText(uri, text);
    return uri;
  }

  async showText(name: string, text: string): Promise<void> {
    const uri = Uri.from({ scheme: TEXT_SCHEME, path: `/${Date.now()}/${name.replace(/[/\\]/g, " ").slice(0, 60)}` });
    this.#fileSystem.putText(uri, text);
    await window.showTextDocument(await workspace.openTextDocument(uri), { preview: true });
  }

  setDecided(approvalId: string, isDecided: boolean): void {
    const review = this.#reviews.get(approvalId);
    if (review) review.isDecided = isDecided;
  }

  /** Runs when the approval is resolved or its review is discarded. */
  closeReview(approvalId: string): Promise<void> {
    // Both the answer and its event close the review.
    const closing = this.#closing.get(approvalId) ?? this.#disposeReview(approvalId);
    this.#closing.set(approvalId, closing);
    return closing.finally(() => this.#closing.delete(approvalId));
  }

  async #disposeReview(approvalId: string): Promise<void> {
    const review = this.#reviews.get(approvalId);
    this.#reviews.delete(approvalId);
    this.#staleAfterReload.delete(approvalId);
    await window.tabGroups.close(findReviewTabs(approvalId, TEXT_SCHEME), true);
    this.#fileSystem.removeFiles(...(this.#overviews.get(approvalId) ?? []));
    this.#overviews.delete(approvalId);
    const wasActive = findReviewTabs(approvalId).some((tab) => tab.isActive && tab.group.isActive);
    // Otherwise the file below gets the focus, and with it what the user types next.
    await closeReviewTabs(approvalId, review?.isFromChat ?? false);
    if (review?.isFromChat && review.isDecided && wasActive) this.returnFocus(approvalId, true);
    if (review) this.#fileSystem.removeFiles(review.leftUri, review.rightUri);
    if (this.#reviews.size === 0) await commands.executeCommand("setContext", "agentls.reviewing", false);
    this.#reportDifferences();
  }

  /** Returns the focus when the user closes the review of an open request. */
  #onTabClosed(tab: Tab): void {
    const uri = getTabUri(tab);
    if (uri?.scheme !== REVIEW_SCHEME) return;
    const review = [...this.#reviews.values()].find(({ rightUri }) => rightUri.toString() === uri.toString());
    if (!review?.isFromChat || this.#closing.has(review.approval.approvalId)) return;
    const openedTabs = this.#openedTabs;
    setTimeout(() => {
      if (this.#openedTabs === openedTabs) this.returnFocus(review.approval.approvalId, false);
    }, REPLACE_DELAY_MS);
  }

  async #prepareReview(approval: ApprovalRequestedNotification): Promise<Review | undefined> {
    const { approvalId, sessionId } = approval;
    const tool = this.chat.activeSession?.items.find(
      (item): item is ToolItem => item.kind === "tool" && item.id === approval.toolCallId,
    );
    const diff = await this.#readFullText(approval.diff, approval.more?.["diff"]?.ref);
    const patches = diff === undefined ? [] : splitDiff(diff);
    if (diff !== undefined && patches.length > 1) {
      await this.#showSeveralFiles(approval, diff, patches);
      return undefined;
    }
    const file = resolveTarget(approval, tool);
    const before = await readFileText(file);
    const proposal = await this.#computeProposal(approval, before);
    if (proposal === undefined) {
      await window.showWarningMessage(
        `The proposed edit does not match the current content of ${escapeNotification(file.fsPath)}.`,
      );
      return undefined;
    }
    const name = file.path.split("/").pop() ?? "file";
    const leftUri = Uri.from({ scheme: TEXT_SCHEME, path: `/before/${approvalId}/${name}` });
    // Each review gets a new URI, because a closed document may survive with old text. The path must be the file's:
    // Quick Open lists changed documents by path.
    this.#openCount += 1;
    const rightUri = Uri.from({
      scheme: REVIEW_SCHEME,
      authority: `${approvalId}.${this.#openCount}`,
      path: file.path,
    });
    this.#fileSystem.putText(leftUri, before);
    this.#fileSystem.putText(rightUri, proposal);
    // A tab from before a reload may show an older text.
    await closeReviewTabs(approvalId);
    // Compare with the editor's version, which may have different line ends.
    const document = await workspace.openTextDocument(rightUri);
    return {
      sessionId,
      approval,
      file,
      leftUri,
      rightUri,
      before,
      proposal: document.getText(),
      isFromChat: false,
      isDecided: false,
    };
  }

  /** Shows a proposal for several files. It cannot be changed, because the decision is about all of them. */
  async #showSeveralFiles(
    { approvalId, title, cwd }: ApprovalRequestedNotification,
    diff: string,
    patches: readonly FilePatch[],
  ): Promise<void> {
    const pairs: [Uri, Uri, Uri][] = [];
    for (const { from, to, apply } of patches) {
      const before = await readFileText(resolvePath(from, cwd));
      const after = apply(before);
      // The diff has codes for hidden characters, so it may not apply.
      if (after === undefined) return this.showText("proposed edits.diff", diff);
      const file = resolvePath(to, cwd);
      const [left, right] = ["before", "after"].map((side) =>
        Uri.from({ scheme: TEXT_SCHEME, authority: `${approvalId}.${side}`, path: file.path }),
      ) as [Uri, Uri];
      this.#fileSystem.putText(left, before);
      this.#fileSystem.putText(right, after);
      pairs.push([file, left, right]);
    }
    this.#overviews.set(
      approvalId,
      pairs.flatMap(([, left, right]) => [left, right]),
    );
    await commands.executeCommand("vscode.changes", `${escapeLabel(title)} (proposed edits)`, pairs);
  }

  async #openDiffEditor({ leftUri, rightUri, file }: Review): Promise<void> {
    const name = file.path.split("/").pop() ?? "file";
    await commands.executeCommand("vscode.diff", leftUri, rightUri, `${name} (proposed edit)`, { preview: true });
  }

  async #confirmDiscard(review: Review, isStale: boolean): Promise<boolean> {
    const name = escapeNotification(review.file.fsPath);
    const question = isStale
      ? `${name} has changed since you reviewed the edit. Start over? Your changes in the review will be lost.`
      : `Discard your changes in the review of ${name}? The request then applies to the agent's proposal.`;
    const action = isStale ? "Start Over" : "Discard";
    return (await window.showWarningMessage(question, { modal: true }, action)) === action;
  }

  /** Reads the open document, or the saved text if the editor is closed. */
  #getReviewText({ rightUri }: Review): string {
    return findDocument(rightUri)?.getText() ?? this.#fileSystem.readText(rightUri);
  }

  #reportDifferences(): void {
    const reviews: Record<string, ReviewSummary> = {};
    for (const [approvalId, review] of this.#reviews) {
      const reviewText = normalizeReviewText(review, this.#getReviewText(review));
      const isUnchanged = reviewText === review.proposal;
      const difference = isUnchanged
        ? ""
        : describeDifference(compareReview(review.before, review.proposal, reviewText));
      reviews[approvalId] = { difference: isUnchanged ? "" : difference || "edited by you" };
    }
    if (JSON.stringify(reviews) !== JSON.stringify(this.chat.view.reviews)) this.chat.updateView({ reviews });
    const changed = Object.entries(reviews).flatMap(([id, { difference }]) => (difference === "" ? [] : [id]));
    const serialized = JSON.stringify([...this.#staleAfterReload, ...changed].slice(-MAX_REMEMBERED_REVIEWS));
    if (serialized !== (this.chat.memory.get(CHANGED_REVIEWS_KEY) ?? "[]"))
      this.chat.memory.set(CHANGED_REVIEWS_KEY, serialized);
  }

  async #computeProposal(approval: ApprovalRequestedNotification, before: string): Promise<string | undefined> {
    const input = (await this.#readInput(approval)) as { content?: unknown; edits?: unknown } | undefined;
    if (approval.name === "write_file" && typeof input?.content === "string") return input.content;
    if (approval.name === "edit_file" && Array.isArray(input?.edits)) {
      const edited = applyEdits(before.replaceAll("\r\n", "\n"), input.edits);
      if (edited !== undefined) return before.includes("\r\n") ? edited.replaceAll("\n", "\r\n") : edited;
    }
    // The diff contains escaped hidden characters, so prefer the arguments.
    const diff = await this.#readFullText(approval.diff, approval.more?.["diff"]?.ref);
    return diff === undefined ? undefined : applyDiff(before, diff);
  }

  /** Reads the arguments in full. */
  async #readInput(approval: ApprovalRequestedNotification): Promise<Record<string, unknown> | undefined> {
    const ref = approval.more?.["input"]?.ref;
    if (ref === undefined) return approval.input as Record<string, unknown>;
    try {
      const fullInput: unknown = JSON.parse((await this.chat.readContent(approval.sessionId, ref)) ?? "");
      return typeof fullInput === "object" && fullInput !== null ? (fullInput as Record<string, unknown>) : undefined;
    } catch {
      return undefined;
    }
  }

  async #readFullText(text: string | undefined, ref: string | undefined): Promise<string | undefined> {
    const sessionId = this.chat.activeSession?.sessionId;
    return ref === undefined || sessionId === undefined ? text : this.chat.readContent(sessionId, ref);
  }

  #findActiveReview(): { review: Review; document: TextDocument } | undefined {
    const tab = window.tabGroups.activeTabGroup.activeTab?.input as Partial<TabInputTextDiff> | undefined;
    const uri = (tab?.modified ?? window.activeTextEditor?.document.uri)?.toString();
    const review = [...this.#reviews.values()].find(({ rightUri }) => rightUri.toString() === uri);
    const document = review && findDocument(review.rightUri);
    return review && document && { review, document };
  }
}

function refuseOutcome(message: string): ReviewOutcome {
  return { kind: "refused", message };
}

function findDocument(uri: Uri): TextDocument | undefined {
  return workspace.textDocuments.find((document) => !document.isClosed && document.uri.toString() === uri.toString());
}

function findReviewTabs(approvalId: string, scheme = REVIEW_SCHEME): Tab[] {
  return window.tabGroups.all
    .flatMap(({ tabs }) => tabs)
    .filter((tab) => {
      const tabUri = getTabUri(tab);
      return tabUri?.scheme === scheme && tabUri.authority.startsWith(`${approvalId}.`);
    });
}

/** Saves first, because VS Code asks before it closes a changed document. */
async function closeReviewTabs(approvalId: string, preserveFocus = false): Promise<void> {
  const tabs = findReviewTabs(approvalId);
  for (const tab of tabs) {
    const uri = getTabUri(tab);
    const document = uri && findDocument(uri);
    if (document?.isDirty) await document.save();
  }
  await window.tabGroups.close(tabs, preserveFocus);
}

function getTabUri({ input }: Tab): Uri | undefined {
  const { modified, uri, textDiffs } = (input ?? {}) as Partial<
    TabInputTextDiff & { uri: Uri; textDiffs: TabInputTextDiff[] }
  >;
  return modified ?? uri ?? textDiffs?.[0]?.modified;
}

/** Ignores differences in line ends. */
function normalizeReviewText({ before, proposal }: Review, text: string): string {
  const normalizeLineEnds = (value: string) => value.replace(/\r\n?/g, "\n");
  if (normalizeLineEnds(text) === normalizeLineEnds(proposal)) return proposal;
  return normalizeLineEnds(text) === normalizeLineEnds(before) ? before : text;
}

/** Lists hidden characters in added lines. */
function describeHiddenCharacters({ before, proposal }: Review): string {
  const occurrences = computeHunks(before, proposal).flatMap((hunk) =>
    hunk.new.flatMap((line, at) =>
      [...revealHidden(line).matchAll(/<(U\+[0-9A-F]{4,6})>/g)]
        .filter(([code]) => !line.includes(code))
        .map(([, name]) => `${name} on line ${hunk.newStart + at + 1}`),
    ),
  );
  const suffix = occurrences.length > 5 ? `, and ${occurrences.length - 5} more` : "";
  return occurrences.slice(0, 5).join(", ") + suffix;
}

function buildEditedInput(name: string, input: Record<string, unknown>, before: string, after: string): unknown {
  const toLineFeeds = (text: string) => text.replaceAll("\r\n", "\n");
  if (typeof input["patch"] === "string") {
    const patch = buildPatch(toLineFeeds(input["patch"]), toLineFeeds(before), toLineFeeds(after));
    return patch === undefined ? undefined : { patch };
  }
  if (typeof input["path"] !== "string") return undefined;
  if (name === "edit_file") return { path: input["path"], edits: buildEdits(toLineFeeds(before), toLineFeeds(after)) };
  return name === "write_file" ? { ...input, content: toLineFeeds(after) } : undefined;
}

function resolveTarget(approval: ApprovalRequestedNotification, tool: ToolItem | undefined): Uri {
  const uri = tool?.locations?.[0]?.uri;
  if (uri !== undefined) return Uri.parse(uri);
  const { path = "" } = approval.input as { path?: string };
  return resolvePath(path, approval.cwd);
}

/** Resolves a path as the agent writes it: absolute, relative to `cwd`, or `rootName/path` in another folder. */
export function resolvePath(path: string, cwd: string): Uri {
  if (/^([/\\]|[A-Za-z]:)/.test(path)) return Uri.file(path);
  const [root, ...segments] = path.split("/");
  const folder = workspace.workspaceFolders?.find(
    (candidate) => candidate.name === root && candidate.uri.fsPath !== cwd,
  );
  return folder ? Uri.joinPath(folder.uri, ...segments) : Uri.joinPath(Uri.file(cwd), path);
}

export function getWorkingFolder(state: ChatState | undefined): string {
  return state?.cwd ?? workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
}

/** Includes unsaved changes. Returns an empty string if the file does not exist. */
export async function readFileText(uri: Uri): Promise<string> {
  try {
    return (await workspace.openTextDocument(uri)).getText();
  } catch {
    return "";
  }
}
