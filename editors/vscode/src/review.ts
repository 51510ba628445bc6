// The diff editor for what the agent proposes and for what it has done.
//
// A proposed edit is shown with the file as it is at the left and the proposal at the right. The right side can be
// edited: VS Code's own arrows take a hunk back, so does a command for the keyboard, and any other change is welcome.
// "Allow as shown" sends what stands there, as edited arguments of the call.
// A done edit is shown with the file itself at the right, so that taking a hunk back is an edit like any other.

import {
  commands,
  type Disposable,
  type Event as EditorEvent,
  EventEmitter,
  type FileChangeEvent,
  FileChangeType,
  type FileStat,
  FileSystemError,
  type FileSystemProvider,
  FileType,
  Range,
  type TabInputTextDiff,
  type TextDocument,
  Uri,
  window,
  workspace,
} from "vscode";
import type { Chat } from "./chat";
import { hunkAt, hunks, patched, toEdits, unpatched } from "./hunks";
import type { ApprovalRequestedNotification } from "./protocol";
import type { State, ToolItem } from "./state";

export const REVIEW = "agentls-review";
export const TEXT = "agentls-text";

interface Review {
  approval: ApprovalRequestedNotification;
  before: string;
  proposal: string;
}

export class Reviews implements Disposable {
  readonly #files = new MemoryFiles();
  readonly #reviews = new Map<string, Review>();
  readonly #disposables: Disposable[];

  constructor(readonly chat: Chat) {
    this.#disposables = [
      workspace.registerFileSystemProvider(REVIEW, this.#files, { isCaseSensitive: true }),
      workspace.registerTextDocumentContentProvider(TEXT, {
        provideTextDocumentContent: (uri) => this.#files.text(uri),
      }),
    ];
  }

  dispose(): void {
    for (const disposable of this.#disposables) disposable.dispose();
  }

  /** Opens the diff editor of an open approval. */
  async propose(approvalId: string): Promise<void> {
    const chat = this.chat.shown;
    const approval = chat?.approvals.find((open) => open.approvalId === approvalId) ?? chat?.approvals.find(proposes);
    if (chat === undefined || approval?.diff === undefined) {
      await window.showInformationMessage("No proposed edit waits for you.");
      return;
    }
    const tool = chat.items.find((item): item is ToolItem => item.kind === "tool" && item.id === approval.toolCallId);
    const uri = target(approval, tool);
    const before = await textOf(uri);
    const proposal = await this.#proposal(approval, before);
    if (proposal === undefined) {
      await window.showWarningMessage(`The proposed edit does not fit ${uri.fsPath} as it is now.`);
      return;
    }
    const name = uri.path.split("/").pop() ?? "file";
    const left = Uri.from({ scheme: TEXT, path: `/before/${approvalId}/${name}` });
    const right = Uri.from({ scheme: REVIEW, path: `/${approvalId}/${name}` });
    this.#files.put(left, before);
    this.#files.put(right, proposal);
    this.#reviews.set(right.toString(), { approval, before, proposal });
    await commands.executeCommand("setContext", "agentls.reviewing", true);
    await commands.executeCommand("vscode.diff", left, right, `${name}: what the agent proposes`, { preview: true });
  }

  /** Sends the proposal as it stands in the editor. */
  async allow(): Promise<void> {
    const found = this.#active();
    if (!found) return;
    const { review, document } = found;
    const shown = document.getText();
    if (shown === review.before) {
      await window.showInformationMessage("All changes are left out: deny the edit instead.");
      return;
    }
    await this.#close(document);
    if (shown === review.proposal) return this.chat.approve(review.approval.approvalId, "allow", {});
    const input = edited(review.approval, review.before, shown);
    await this.chat.approve(review.approval.approvalId, "allow", { input });
  }

  async deny(): Promise<void> {
    const found = this.#active();
    if (!found) return;
    const feedback = await window.showInputBox({
      title: "Deny the edit",
      prompt: "What shall the agent be told? May be empty.",
    });
    if (feedback === undefined) return;
    await this.#close(found.document);
    await this.chat.approve(found.review.approval.approvalId, "deny", feedback === "" ? {} : { feedback });
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

  /** An approval was settled elsewhere: its editor goes. */
  async settled(approvalId: string): Promise<void> {
    for (const [key, review] of this.#reviews) {
      if (review.approval.approvalId !== approvalId) continue;
      const document = workspace.textDocuments.find((one) => one.uri.toString() === key);
      if (document) await this.#close(document);
      this.#reviews.delete(key);
    }
    if (this.#reviews.size === 0) await commands.executeCommand("setContext", "agentls.reviewing", false);
  }

  async #proposal(approval: ApprovalRequestedNotification, before: string): Promise<string | undefined> {
    const input = approval.input as { content?: string } | undefined;
    if (approval.name === "write_file" && approval.more?.["input"] === undefined) return input?.content;
    const diff = await this.#whole(approval.diff, approval.more?.["diff"]?.ref);
    return diff === undefined ? undefined : patched(before, diff);
  }

  async #whole(text: string | undefined, ref: string | undefined): Promise<string | undefined> {
    const sessionId = this.chat.shown?.sessionId;
    return ref === undefined || sessionId === undefined ? text : this.chat.content(sessionId, ref);
  }

  #active(): { review: Review; document: TextDocument } | undefined {
    const tab = window.tabGroups.activeTabGroup.activeTab?.input as Partial<TabInputTextDiff> | undefined;
    const uri = tab?.modified ?? window.activeTextEditor?.document.uri;
    const review = uri && this.#reviews.get(uri.toString());
    const document = uri && workspace.textDocuments.find((one) => one.uri.toString() === uri.toString());
    return review && document && { review, document };
  }

  async #close(document: TextDocument): Promise<void> {
    const key = document.uri.toString();
    // Saved first, so that closing asks nothing.
    await document.save();
    for (const group of window.tabGroups.all) {
      for (const tab of group.tabs) {
        const input = tab.input as Partial<TabInputTextDiff> | undefined;
        if (input?.modified?.toString() === key) await window.tabGroups.close(tab);
      }
    }
    this.#reviews.delete(key);
    if (this.#reviews.size === 0) await commands.executeCommand("setContext", "agentls.reviewing", false);
  }
}

function proposes(approval: ApprovalRequestedNotification): boolean {
  return approval.diff !== undefined;
}

/** The arguments that lead to `after`. */
function edited(approval: ApprovalRequestedNotification, before: string, after: string): unknown {
  const lines = (text: string) => text.replaceAll("\r\n", "\n");
  const { path } = approval.input as { path?: string };
  if (approval.name === "edit_file") return { path, edits: toEdits(lines(before), lines(after)) };
  return { ...(approval.input as object), content: lines(after) };
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

/** Files that are only in memory. */
class MemoryFiles implements FileSystemProvider {
  readonly #texts = new Map<string, { text: Uint8Array; at: number }>();
  readonly #changed = new EventEmitter<FileChangeEvent[]>();
  readonly onDidChangeFile: EditorEvent<FileChangeEvent[]> = this.#changed.event;

  put(uri: Uri, text: string): void {
    this.#texts.set(uri.toString(), { text: Buffer.from(text), at: Date.now() });
    this.#changed.fire([{ type: FileChangeType.Changed, uri }]);
  }

  text(uri: Uri): string {
    return Buffer.from(this.readFile(uri)).toString();
  }

  watch(): Disposable {
    return { dispose() {} };
  }

  stat(uri: Uri): FileStat {
    const file = this.#file(uri);
    return { type: FileType.File, ctime: file.at, mtime: file.at, size: file.text.length };
  }

  readFile(uri: Uri): Uint8Array {
    return this.#file(uri).text;
  }

  writeFile(uri: Uri, text: Uint8Array): void {
    this.#file(uri);
    this.#texts.set(uri.toString(), { text, at: Date.now() });
  }

  delete(uri: Uri): void {
    this.#texts.delete(uri.toString());
  }

  readDirectory(): [string, FileType][] {
    return [];
  }

  createDirectory(uri: Uri): void {
    throw FileSystemError.NoPermissions(uri);
  }

  rename(uri: Uri): void {
    throw FileSystemError.NoPermissions(uri);
  }

  #file(uri: Uri): { text: Uint8Array; at: number } {
    const file = this.#texts.get(uri.toString());
    if (!file) throw FileSystemError.FileNotFound(uri);
    return file;
  }
}
