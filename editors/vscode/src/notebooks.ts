// Reports notebooks with unsaved changes to the server. VS Code syncs only their cells, so the server would edit the
// file behind the user's back. An open notebook makes the server request each edit, which workspaceEdits.ts rejects
// until it is saved.

import { readFile } from "node:fs/promises";
import { Disposable, type NotebookDocument, workspace } from "vscode";

export class NotebookSync implements Disposable {
  readonly #openUris = new Set<string>();
  readonly #listeners: Disposable;

  constructor(readonly sendNotification: (method: string, params: unknown) => void) {
    this.#listeners = Disposable.from(
      workspace.onDidChangeNotebookDocument(({ notebook }) => void this.#syncNotebook(notebook)),
      workspace.onDidSaveNotebookDocument((notebook) => void this.#syncNotebook(notebook)),
      workspace.onDidCloseNotebookDocument((notebook) => this.#closeNotebook(notebook.uri.toString())),
    );
  }

  /** A new server does not know the open notebooks. */
  onConnected(): void {
    this.#openUris.clear();
    for (const notebook of workspace.notebookDocuments) void this.#syncNotebook(notebook);
  }

  dispose(): void {
    this.#listeners.dispose();
  }

  async #syncNotebook(notebook: NotebookDocument): Promise<void> {
    const uri = notebook.uri.toString();
    if (!notebook.isDirty) return this.#closeNotebook(uri);
    // The stock client syncs notebooks that are open as text.
    const isText = workspace.textDocuments.some((document) => document.uri.toString() === uri);
    if (notebook.uri.scheme !== "file" || isText || this.#openUris.has(uri)) return;
    this.#openUris.add(uri);
    const text = await readFile(notebook.uri.fsPath, "utf8").catch(() => "");
    if (this.#openUris.has(uri)) {
      this.sendNotification("textDocument/didOpen", { textDocument: { uri, languageId: "jupyter", version: 1, text } });
    }
  }

  #closeNotebook(uri: string): void {
    if (this.#openUris.delete(uri)) this.sendNotification("textDocument/didClose", { textDocument: { uri } });
  }
}
