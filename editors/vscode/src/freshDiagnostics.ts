// Knows whether the editor's compilers have reported about the current text of a document.

import { Disposable, languages, Uri, workspace } from "vscode";

/**
 * How long nothing more may be reported until the reports count as complete. Language support reports in parts, and
 * about other documents after the one that changed.
 */
const QUIET_MS = 300;

export class FreshDiagnostics implements Disposable {
  readonly #changedAt = new Map<string, number>();
  readonly #reportedAt = new Map<string, number>();
  #lastReport = 0;
  readonly #subscriptions = Disposable.from(
    workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
      if (contentChanges.length > 0) this.#changedAt.set(document.uri.toString(), Date.now());
    }),
    workspace.onDidCloseTextDocument(({ uri }) => {
      this.#changedAt.delete(uri.toString());
      this.#reportedAt.delete(uri.toString());
    }),
    languages.onDidChangeDiagnostics(({ uris }) => {
      this.#lastReport = Date.now();
      for (const uri of uris) this.#reportedAt.set(uri.toString(), this.#lastReport);
    }),
  );

  dispose(): void {
    this.#subscriptions.dispose();
  }

  /** Waits for the reports about the document's text, at most `ms`. The editor hides a report that changes nothing. */
  waitForReports(uri: string, ms: number): Promise<void> {
    const key = Uri.parse(uri).toString();
    const isReported = () => (this.#reportedAt.get(key) ?? 0) >= (this.#changedAt.get(key) ?? Number.POSITIVE_INFINITY);
    return new Promise((resolve) => {
      let quiet: NodeJS.Timeout | undefined;
      const finish = () => {
        clearTimeout(quiet);
        clearTimeout(limit);
        reports.dispose();
        resolve();
      };
      const startQuietTime = () => {
        clearTimeout(quiet);
        if (isReported()) quiet = setTimeout(finish, this.#lastReport + QUIET_MS - Date.now());
      };
      const limit = setTimeout(finish, ms);
      // The listener above has recorded the report by then.
      const reports = languages.onDidChangeDiagnostics(startQuietTime);
      startQuietTime();
    });
  }
}
