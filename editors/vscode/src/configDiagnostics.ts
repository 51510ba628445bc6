// Shows the problems of the configuration in the editor's list of problems, with quick fixes.

import {
  type CodeAction,
  CodeActionKind,
  Diagnostic,
  DiagnosticSeverity,
  type Disposable,
  languages,
  Range,
  type TextDocument,
  Uri,
  WorkspaceEdit,
} from "vscode";
import { isFixedByTrust, parseSuggestion } from "./problemText";
import type { ProblemList } from "./webviewProtocol";

/** The source of these diagnostics. */
export const CONFIG_DIAGNOSTICS = "agentls";

export class ConfigDiagnostics implements Disposable {
  readonly #collection = languages.createDiagnosticCollection(CONFIG_DIAGNOSTICS);
  readonly #actions = languages.registerCodeActionsProvider(
    { scheme: "file" },
    {
      provideCodeActions: (document, _range, { diagnostics }) =>
        diagnostics
          .filter(({ source }) => source === CONFIG_DIAGNOSTICS)
          .flatMap((diagnostic) => buildFixes(document, diagnostic)),
    },
    { providedCodeActionKinds: [CodeActionKind.QuickFix] },
  );
  #shown: ProblemList | undefined;

  dispose(): void {
    this.#collection.dispose();
    this.#actions.dispose();
  }

  update(list: ProblemList): void {
    if (list === this.#shown) return;
    this.#shown = list;
    const byFile = new Map<string, Diagnostic[]>();
    for (const { message, place, severity } of list.problems) {
      // A problem of an environment variable or an option has no file.
      if (place === undefined || !/^([/\\]|[A-Za-z]:)/.test(place.file)) continue;
      const line = Math.max(0, place.line - 1);
      const range = new Range(line, Math.max(0, place.column - 1), line, Number.MAX_SAFE_INTEGER);
      const level = severity === "error" ? DiagnosticSeverity.Error : DiagnosticSeverity.Warning;
      const diagnostic = new Diagnostic(range, message, level);
      diagnostic.source = CONFIG_DIAGNOSTICS;
      byFile.set(place.file, [...(byFile.get(place.file) ?? []), diagnostic]);
    }
    this.#collection.clear();
    for (const [file, diagnostics] of byFile) this.#collection.set(Uri.file(file), diagnostics);
  }
}

function buildFixes(document: TextDocument, diagnostic: Diagnostic): CodeAction[] {
  const fixes: CodeAction[] = [];
  const suggestion = parseSuggestion(diagnostic.message);
  const line = document.lineAt(Math.min(diagnostic.range.start.line, document.lineCount - 1));
  const at = suggestion === undefined ? -1 : line.text.indexOf(suggestion.wrong);
  if (suggestion && at >= 0) {
    const edit = new WorkspaceEdit();
    const range = new Range(line.lineNumber, at, line.lineNumber, at + suggestion.wrong.length);
    edit.replace(document.uri, range, suggestion.right);
    const title = `Change to “${suggestion.right}”`;
    fixes.push({ title, kind: CodeActionKind.QuickFix, diagnostics: [diagnostic], edit, isPreferred: true });
  }
  if (isFixedByTrust(diagnostic.message)) {
    const title = "Trust folder…";
    const command = { title, command: "agentls.trust" };
    fixes.push({ title, kind: CodeActionKind.QuickFix, diagnostics: [diagnostic], command });
  }
  return fixes;
}
