// Code actions: "Ask agent" where something is selected, "Fix with agent" on a problem.

import { type CodeAction, CodeActionKind, type Disposable, languages } from "vscode";

export function registerCodeActions(): Disposable {
  return languages.registerCodeActionsProvider(
    { scheme: "file" },
    {
      provideCodeActions(document, range, context) {
        const actions: CodeAction[] = context.diagnostics.map((diagnostic) => ({
          title: "Fix with agent",
          kind: CodeActionKind.QuickFix,
          diagnostics: [diagnostic],
          command: { title: "Fix with agent", command: "agentls.fix", arguments: [document.uri, diagnostic] },
        }));
        if (!range.isEmpty) {
          actions.push({
            title: "Ask agent",
            kind: CodeActionKind.RefactorRewrite,
            command: { title: "Ask agent", command: "agentls.ask" },
          });
        }
        return actions;
      },
    },
    { providedCodeActionKinds: [CodeActionKind.QuickFix, CodeActionKind.RefactorRewrite] },
  );
}
