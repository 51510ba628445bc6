// Notebooks with unsaved changes (R-TOOL-3). The file of one is not what the person sees, and VS Code tells the server
// of its cells only, so the server would change the file behind the person's back. It is told that the file is open in
// the editor: then it asks the editor for each edit, and edits.ts refuses until the notebook is saved.

import { readFile } from "node:fs/promises";
import { Disposable, type NotebookDocument, workspace } from "vscode";

export class NotebookSync implements Disposable {
  /** The files that the server was told of. */
  readonly #openUris = new Set<string>();
  readonly #listeners: Disposable;

  constructor(readonly sendNotification: (method: string, params: unknown) => void) {
    this.#listeners = Disposable.from(
      workspace.onDidChangeNotebookDocument(({ notebook }) => void this.#syncNotebook(notebook)),
      workspace.onDidSaveNotebookDocument((notebook) => void this.#syncNotebook(notebook)),
      workspace.onDidCloseNotebookDocument((notebook) => this.#closeNotebook(notebook.uri.toString())),
    );
  }

  /** Another server knows nothing of what was told. */
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
    // As a text it is told of by the stock client.
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
