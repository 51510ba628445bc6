// Applies edits through the editor (R-TOOL-3): versioned `workspace/applyEdit`, and `agent/saveDocuments`.
//
// The user sees the edits and can undo them. In a visible editor, consecutive edits of a turn form one undo step.
// Elsewhere, VS Code creates a step for each. Unsaved notebooks are rejected, because their files are not what the user
// sees.

import {
  CancellationTokenSource,
  type NotebookDocument,
  Range,
  type TextDocument,
  type TextEditor,
  Uri,
  window,
  workspace,
} from "vscode";
import type {
  ApplyWorkspaceEditParams,
  ApplyWorkspaceEditRequest,
  ApplyWorkspaceEditResult,
  HandlerResult,
  TextEdit,
} from "vscode-languageclient/node";

export class WorkspaceEdits {
  /** Document versions after our last edit in the running turn. */
  readonly #editedVersions = new Map<string, number>();

  /** `flushDocumentChanges` sends changes to the server before the edit's response. */
  constructor(readonly flushDocumentChanges: () => Promise<void>) {}

  /** Closes the undo steps of the turn. */
  onTurnEnded(): void {
    this.#editedVersions.clear();
  }

  async applyEdit(
    params: ApplyWorkspaceEditParams,
    next: ApplyWorkspaceEditRequest.HandlerSignature,
  ): Promise<Awaited<HandlerResult<ApplyWorkspaceEditResult, void>>> {
    const changes = params.edit.documentChanges ?? [];
    for (const uri of listTouchedUris(params)) {
      const notebook = findUnsavedNotebook(uri);
      if (notebook)
        return rejectEdit(`${notebook.uri.fsPath} is open as a notebook with unsaved changes; save it first`);
    }
    for (const change of changes) {
      if (!("textDocument" in change) || change.textDocument.version === null) continue;
      const document = findOpenDocument(change.textDocument.uri);
      if (document && document.version !== change.textDocument.version) {
        return rejectEdit(
          `${document.uri.fsPath} changed before the edit was applied (now version ${document.version})`,
        );
      }
    }
    const [singleChange] = changes;
    if (changes.length === 1 && singleChange && "textDocument" in singleChange) {
      const edits = singleChange.edits.filter((edit): edit is TextEdit => "newText" in edit);
      const editor = findVisibleEditor(singleChange.textDocument.uri);
      if (editor && edits.length === singleChange.edits.length) return this.#applyInEditor(editor, edits);
    }
    const result = await next(params, new CancellationTokenSource().token);
    await this.flushDocumentChanges();
    return result;
  }

  /** Joins the turn's previous undo step if nothing else changed since. */
  async #applyInEditor(editor: TextEditor, edits: readonly TextEdit[]): Promise<ApplyWorkspaceEditResult> {
    const { document } = editor;
    const key = document.uri.toString();
    const joinsUndoStep = this.#editedVersions.get(key) === document.version;
    const applied = await editor.edit(
      (builder) => {
        for (const { range, newText } of edits) {
          const { start, end } = range;
          builder.replace(new Range(start.line, start.character, end.line, end.character), newText);
        }
      },
      { undoStopBefore: !joinsUndoStep, undoStopAfter: false },
    );
    if (!applied) return rejectEdit(`${document.uri.fsPath} could not be changed in the editor`);
    this.#editedVersions.set(key, document.version);
    await this.flushDocumentChanges();
    return { applied };
  }

  /** Answers `agent/saveDocuments` with the saved documents and the reasons for failures. */
  async saveDocuments({ uris }: { uris: string[] }): Promise<SaveResult> {
    const answer: SaveResult = { saved: [], failed: [] };
    const savesAfterEdit = workspace.getConfiguration("agentls").get("saveAfterEdit", true);
    for (const uri of uris) {
      const reason = await this.#trySave(uri, savesAfterEdit);
      if (reason === undefined) answer.saved.push(uri);
      else answer.failed.push({ uri, reason });
    }
    return answer;
  }

  async #trySave(uri: string, savesAfterEdit: boolean): Promise<string | undefined> {
    const document = findOpenDocument(uri);
    if (document === undefined) return "it is not open in the editor";
    if (!document.isDirty) return undefined;
    if (!savesAfterEdit) return "the setting agentls.saveAfterEdit is off";
    if (!(await document.save())) return "the editor could not save it";
    // Changes made by saving, such as formatting, belong to the same undo step.
    const key = document.uri.toString();
    if (this.#editedVersions.has(key)) this.#editedVersions.set(key, document.version);
    await this.flushDocumentChanges();
    return undefined;
  }
}

interface SaveResult {
  saved: string[];
  failed: { uri: string; reason: string }[];
}

function listTouchedUris(params: ApplyWorkspaceEditParams): string[] {
  const uris = Object.keys(params.edit.changes ?? {});
  for (const change of params.edit.documentChanges ?? []) {
    if ("textDocument" in change) uris.push(change.textDocument.uri);
    else if ("uri" in change) uris.push(change.uri);
    else uris.push(change.oldUri, change.newUri);
  }
  return uris;
}

function rejectEdit(failureReason: string): ApplyWorkspaceEditResult {
  return { applied: false, failureReason };
}

function findOpenDocument(uri: string): TextDocument | undefined {
  const normalized = Uri.parse(uri).toString();
  return workspace.textDocuments.find((document) => document.uri.toString() === normalized);
}

function findVisibleEditor(uri: string): TextEditor | undefined {
  const normalized = Uri.parse(uri).toString();
  return window.visibleTextEditors.find((editor) => editor.document.uri.toString() === normalized);
}

function findUnsavedNotebook(uri: string): NotebookDocument | undefined {
  const normalized = Uri.parse(uri).toString();
  return workspace.notebookDocuments.find((notebook) => notebook.isDirty && notebook.uri.toString() === normalized);
}
