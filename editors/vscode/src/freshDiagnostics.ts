// Waits until the editor's compilers have reported about the current text of documents, and loads those that are not
// open. The editor has no way to unload a document; it does so itself some minutes after the last use.

import { Disposable, languages, type TextDocument, Uri, window, workspace } from "vscode";
import type { Diagnostic } from "./protocol";
import { isTypeScript, readTypeScriptErrors, type TypeScriptErrors } from "./typeScriptErrors";

/**
 * Which part of the longest wait must pass without another report until the reports count as complete. Language support
 * reports in parts, and about other documents after the one that changed.
 */
const QUIET_PART = 0.15;

/** How long TypeScript has for an answer that must not wait. */
const ANSWER_MS = 1000;

/** What is known at the end of a wait. */
export interface Reports {
  /** The documents about which nothing was reported in time. */
  readonly unreported: string[];
  /** The errors that TypeScript finds. The editor may not show them yet, and never does for documents in no tab. */
  readonly typeScript: TypeScriptErrors;
}

export class FreshDiagnostics implements Disposable {
  readonly #changedAt = new Map<string, number>();
  readonly #reportedAt = new Map<string, number>();
  #lastReport = 0;
  /** Languages whose documents in no tab were waited for in vain. A later report about one ends this. */
  readonly #silentLanguages = new Set<string>();
  readonly #subscriptions = Disposable.from(
    workspace.onDidOpenTextDocument(({ uri }) => void this.#changedAt.set(uri.toString(), Date.now())),
    workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
      if (contentChanges.length > 0) this.#changedAt.set(document.uri.toString(), Date.now());
    }),
    workspace.onDidCloseTextDocument(({ uri }) => {
      this.#changedAt.delete(uri.toString());
      this.#reportedAt.delete(uri.toString());
    }),
    languages.onDidChangeDiagnostics(({ uris }) => {
      this.#lastReport = Date.now();
      const reported = new Set(uris.map((uri) => uri.toString()));
      for (const uri of reported) this.#reportedAt.set(uri, this.#lastReport);
      for (const { uri, languageId } of this.#silentLanguages.size > 0 ? workspace.textDocuments : []) {
        if (reported.has(uri.toString()) && !isInTab(uri)) this.#silentLanguages.delete(languageId);
      }
    }),
  );

  dispose(): void {
    this.#subscriptions.dispose();
  }

  /** Waits for the reports about the current text of documents, at most `ms` for all together. */
  async waitForReports(uris: readonly string[], ms: number): Promise<Reports> {
    const deadline = Date.now() + ms;
    const documents = new Map<string, TextDocument>();
    await withDeadline(
      deadline,
      Promise.all(
        uris.map(async (uri) => {
          const document = await loadDocument(Uri.parse(uri), deadline);
          if (document !== undefined) documents.set(uri, document);
        }),
      ),
    );
    const typeScript = new Map<string, Diagnostic[]>();
    await withDeadline(deadline, readTypeScriptErrors([...documents.values()].filter(isTypeScript), typeScript));
    const awaited = [...documents.entries()].filter(
      ([, document]) => !typeScript.has(document.uri.toString()) && !this.#isSilent(document),
    );
    if (awaited.length > 0) {
      await this.#waitForEvents(
        awaited.map(([, document]) => document),
        deadline,
      );
    }
    const unreported = awaited.filter(([, document]) => !this.#isReported(document));
    for (const [, document] of unreported) {
      if (isInTab(document.uri)) continue;
      this.#silentLanguages.add(document.languageId);
      // It may have been in a tab.
      this.#reportedAt.delete(document.uri.toString());
    }
    return { unreported: unreported.map(([uri]) => uri), typeScript };
  }

  /** Returns the errors that TypeScript knows now, also of loaded documents that are in no tab. */
  async readTypeScript(): Promise<TypeScriptErrors> {
    const errors = new Map<string, Diagnostic[]>();
    await withDeadline(Date.now() + ANSWER_MS, readTypeScriptErrors([], errors));
    return errors;
  }

  /** Whether nothing is reported about such documents. Some language support covers only those in tabs. */
  #isSilent({ uri, languageId }: TextDocument): boolean {
    const isSilent = this.#silentLanguages.has(languageId) && !this.#reportedAt.has(uri.toString()) && !isInTab(uri);
    return isSilent || languageId === "plaintext";
  }

  #isReported({ uri }: TextDocument): boolean {
    const key = uri.toString();
    return (this.#reportedAt.get(key) ?? 0) >= (this.#changedAt.get(key) ?? 0);
  }

  /** Waits for reports of the editor, which hides those that change nothing. */
  #waitForEvents(documents: readonly TextDocument[], deadline: number): Promise<void> {
    return new Promise((resolve) => {
      let quiet: NodeJS.Timeout | undefined;
      let quietMs: number | undefined;
      const startedAt = Date.now();
      const longest = deadline - startedAt;
      const finish = () => {
        clearTimeout(quiet);
        clearTimeout(limit);
        reports.dispose();
        resolve();
      };
      const startQuietTime = () => {
        clearTimeout(quiet);
        const isComplete = documents.every((document) => this.#isReported(document));
        if (!isComplete) return;
        // A slow one gets as much time as it took.
        quietMs ??= Math.max(longest * QUIET_PART, Date.now() - startedAt);
        quiet = setTimeout(finish, this.#lastReport + quietMs - Date.now());
      };
      const limit = setTimeout(finish, longest);
      // The listener above has recorded the report by then.
      const reports = languages.onDidChangeDiagnostics(startQuietTime);
      startQuietTime();
    });
  }
}

/** Returns the document with the text that its file has now; `undefined` if it cannot be loaded. */
async function loadDocument(uri: Uri, deadline: number): Promise<TextDocument | undefined> {
  try {
    const document = await workspace.openTextDocument(uri);
    const onDisk = new TextDecoder().decode(await workspace.fs.readFile(uri));
    const normalize = (text: string) => text.replaceAll("\r", "");
    const isCurrent = () => document.isDirty || normalize(document.getText()) === normalize(onDisk);
    // The editor reloads a document that was loaded before some time after its file has changed.
    if (!isCurrent() && !onDisk.includes("\ufffd")) await waitForChange(document, isCurrent, deadline);
    return document;
  } catch {
    // It was deleted, or is binary.
    return undefined;
  }
}

export function isInTab(uri: Uri): boolean {
  const tabs = window.tabGroups.all.flatMap((group) => group.tabs);
  return tabs.some(({ input }) => (input as { uri?: Uri } | undefined)?.uri?.toString() === uri.toString());
}

function waitForChange(document: TextDocument, isCurrent: () => boolean, deadline: number): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(limit);
      changes.dispose();
      resolve();
    };
    const limit = setTimeout(finish, deadline - Date.now());
    const changes = workspace.onDidChangeTextDocument((change) => {
      if (change.document === document && isCurrent()) finish();
    });
  });
}

/** Waits for `work`, at most until the deadline. */
async function withDeadline(deadline: number, work: Promise<unknown>): Promise<void> {
  let limit: NodeJS.Timeout | undefined;
  const timeout = new Promise<void>((resolve) => {
    limit = setTimeout(resolve, deadline - Date.now());
  });
  await Promise.race([work, timeout]).finally(() => clearTimeout(limit));
}
