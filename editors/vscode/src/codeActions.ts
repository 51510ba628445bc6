// Provides the code actions "Ask agent" for a selection and "Fix with agent" for a problem.

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
