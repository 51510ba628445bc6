// Wires all parts together when VS Code activates the extension. It contains no logic of its own.

import { type ExtensionContext, window, workspace } from "vscode";
import { ApprovalNotifier } from "./approvalNotifier";
import { Chat } from "./chat";
import { ChatViewProvider } from "./chatViewProvider";
import { AgentClient } from "./client";
import { registerCodeActions } from "./codeActions";
import { type CommandContext, registerCommands } from "./commands";
import { ConfigDiagnostics } from "./configDiagnostics";
import { CredentialStore } from "./credentials";
import { Decisions } from "./decisions";
import { collectDiagnostics, EditorUi, followActiveFile, readServerOptions } from "./editorUi";
import { FreshDiagnostics } from "./freshDiagnostics";
import { answerLanguageQuery } from "./languageQueries";
import { McpServerList } from "./mcpServers";
import { getActiveFolder, readActiveContext } from "./mentions";
import { NotebookSync } from "./notebooks";
import { type GetDiagnosticsParams, type LanguageQueryParams, type Mode, serverRequests } from "./protocol";
import { ReviewManager } from "./review";
import type { AgentEvent } from "./state";
import { TrustNotifier, withdrawTrust } from "./trust";
import { handleViewMessage } from "./webviewController";
import { WorkspaceEdits } from "./workspaceEdits";

let client: AgentClient | undefined;

export function activate(context: ExtensionContext): void {
  const edits = new WorkspaceEdits(async () => client?.flushDocumentChanges());
  const memory = {
    get: (key: string) => context.workspaceState.get<string>(key),
    set: (key: string, value: string | undefined) => void context.workspaceState.update(key, value),
  };
  const chat: Chat = new Chat(memory, {
    onViewChanged: () => {
      chatView.scheduleUpdate();
      editorUi.refreshUi();
      configDiagnostics.update(chat.view.warnings);
    },
    onEvent: (event, before, after) => {
      notifier.onEvent(event, before, after);
      void followActiveFile(chat, event);
      if (event.method === "agent/turnEnded") edits.onTurnEnded();
      for (const { approvalId } of before.approvals) {
        if (!after.approvals.some((open) => open.approvalId === approvalId)) void reviews.closeReview(approvalId);
      }
    },
    restoreDraft: (sessionId, draft) => chatView.restoreDraft(sessionId, draft),
    getSessionFolder: getActiveFolder,
    onTurnStopped: () => void client?.onTurnStopped(),
    getDefaultMode: () => workspace.getConfiguration("agentls").get<Mode | "">("mode", "") || undefined,
  });
  // While the webview has the focus, there is no active editor. Keep the last context.
  const updateActiveContext = () => {
    if (window.activeTextEditor || window.visibleTextEditors.length === 0)
      chat.setActiveContext(readActiveContext(window.activeTextEditor));
  };
  const chatView: ChatViewProvider = new ChatViewProvider(
    context.extensionUri,
    () => chat.view,
    (message) => void handleViewMessage(commandContext, message),
    updateActiveContext,
  );
  const editorUi = new EditorUi(chat, chatView);
  const configDiagnostics = new ConfigDiagnostics();
  const reviews = new ReviewManager(chat, (approvalId, isDecided) => void chatView.returnFocus(approvalId, isDecided));
  const notifier = new ApprovalNotifier(chat, chatView, reviews);
  const decisions = new Decisions(chat, reviews, {
    onRefused: (message) => {
      chat.updateView({ error: message });
      void window.showWarningMessage(message);
    },
    onReopened: (approvalId) => chatView.postMessage({ type: "reopenQuestion", approvalId }),
  });
  const trust = new TrustNotifier(chat, reviews);
  const mcpServers = new McpServerList(chat, reviews);
  const credentials = new CredentialStore(context, chat, (key) => client?.traceChannel.hideSecret(key));
  const notebooks = new NotebookSync((method, params) => client?.sendNotification(method, params));
  const freshDiagnostics = new FreshDiagnostics();
  const handlers = {
    [serverRequests.saveDocuments]: (params: { uris: string[] }) => edits.saveDocuments(params),
    [serverRequests.getDiagnostics]: async (params: GetDiagnosticsParams) => {
      if (params.waitFor === undefined) {
        return collectDiagnostics(
          params,
          params.uri === undefined ? await freshDiagnostics.readTypeScript() : new Map(),
        );
      }
      const awaited = [params.waitFor, ...(params.alsoWaitFor ?? [])];
      const { unreported, typeScript } = await freshDiagnostics.waitForReports(awaited, params.waitMs ?? 0);
      return { ...collectDiagnostics(params, typeScript), unreported };
    },
    [serverRequests.languageQuery]: (params: LanguageQueryParams) => answerLanguageQuery(params, freshDiagnostics),
    [serverRequests.getCredential]: (params: { provider: string }) => credentials.getCredential(params),
  };
  const listener = {
    onConnected: (...answer: Parameters<Chat["onConnected"]>) => {
      notebooks.onConnected();
      // In Restricted Mode, withdraw trust before a session opens.
      void withdrawTrust(answer[0])
        .then(() => chat.onConnected(...answer))
        .then(() => trust.checkFolders());
    },
    onDisconnected: chat.onDisconnected.bind(chat),
    onSilenceChanged: chat.onSilenceChanged.bind(chat),
    onNotification: (event: AgentEvent) => {
      chat.onNotification(event);
      mcpServers.onNotification(event);
    },
  };
  client = new AgentClient(context, listener, handlers, {
    workspace: { handleApplyEdit: (params, next) => edits.applyEdit(params, next) },
  });
  const commandContext: CommandContext = {
    chat,
    client,
    chatView,
    notifier,
    decisions,
    reviews,
    credentials,
    mcpServers,
  };
  context.subscriptions.push(
    client,
    chatView,
    editorUi,
    configDiagnostics,
    freshDiagnostics,
    notifier,
    reviews,
    notebooks,
    registerCodeActions(),
    ...registerCommands(commandContext),
  );
  context.subscriptions.push(
    window.registerWebviewViewProvider(ChatViewProvider.viewId, chatView),
    window.onDidChangeActiveTextEditor(updateActiveContext),
    window.onDidChangeTextEditorSelection(updateActiveContext),
    workspace.onDidGrantWorkspaceTrust(() => void trust.checkFolders()),
    workspace.onDidChangeWorkspaceFolders(() => void trust.checkFolders()),
    workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("agentls.server")) void client?.restart();
      else if (event.affectsConfiguration("agentls.options")) {
        client?.sendNotification("workspace/didChangeConfiguration", { settings: { agentls: readServerOptions() } });
      }
    }),
  );
  void client.start();
}

export async function deactivate(): Promise<void> {
  await client?.stop();
}
