// Notebooks with unsaved changes (R-TOOL-3). The file of one is not what the person sees, and VS Code tells the server
// of its cells only, so the server would change the file behind the person's back. It is told that the file is open in
// the editor: then it asks the editor for each edit, and edits.ts refuses until the notebook is saved.

import { readFile } from "node:fs/promises";
import { Disposable, type NotebookDocument, workspace } from "vscode";

export class Notebooks implements Disposable {
  /** The files that the server was told of. */
  readonly #told = new Set<string>();
  readonly #listeners: Disposable;

  constructor(readonly notify: (method: string, params: unknown) => void) {
    this.#listeners = Disposable.from(
      workspace.onDidChangeNotebookDocument(({ notebook }) => void this.#look(notebook)),
      workspace.onDidSaveNotebookDocument((notebook) => void this.#look(notebook)),
      workspace.onDidCloseNotebookDocument((notebook) => this.#close(notebook.uri.toString())),
    );
  }

  /** Another server knows nothing of what was told. */
  connected(): void {
    this.#told.clear();
    for (const notebook of workspace.notebookDocuments) void this.#look(notebook);
  }

  dispose(): void {
    this.#listeners.dispose();
  }

  async #look(notebook: NotebookDocument): Promise<void> {
    const uri = notebook.uri.toString();
    if (!notebook.isDirty) return this.#close(uri);
    // As a text it is told of by the stock client.
    const isText = workspace.textDocuments.some((document) => document.uri.toString() === uri);
    if (notebook.uri.scheme !== "file" || isText || this.#told.has(uri)) return;
    this.#told.add(uri);
    const text = await readFile(notebook.uri.fsPath, "utf8").catch(() => "");
    if (this.#told.has(uri)) {
      this.notify("textDocument/didOpen", { textDocument: { uri, languageId: "jupyter", version: 1, text } });
    }
  }

  #close(uri: string): void {
    if (this.#told.delete(uri)) this.notify("textDocument/didClose", { textDocument: { uri } });
  }
}
