// Puts the parts together when VS Code starts the extension.

import { type ExtensionContext, window, workspace } from "vscode";
import { Approvals } from "./approvalNotifier";
import { Chat } from "./chat";
import { Panel } from "./chatViewProvider";
import { Client } from "./client";
import { registerActions } from "./codeActions";
import { type Parts, registerCommands } from "./commands";
import { Credentials } from "./credentials";
import { Decisions } from "./decisions";
import { diagnostics, follow, options, Surroundings } from "./editorUi";
import { currentFolder, nearby } from "./mentions";
import { Notebooks } from "./notebooks";
import { type Mode, serverRequests } from "./protocol";
import { Reviews } from "./review";
import { TrustNotices, withdrawTrust } from "./trust";
import { handle } from "./webviewController";
import { Edits } from "./workspaceEdits";

let client: Client | undefined;

export function activate(context: ExtensionContext): void {
  const edits = new Edits(async () => client?.tellChanges());
  const memory = {
    get: (key: string) => context.workspaceState.get<string>(key),
    set: (key: string, value: string | undefined) => void context.workspaceState.update(key, value),
  };
  const chat: Chat = new Chat(memory, {
    changed: () => {
      panel.changed();
      surroundings.changed();
    },
    happened: (event, before, after) => {
      approvals.happened(event, before, after);
      void follow(chat, event);
      if (event.method === "agent/turnEnded") edits.turnEnded();
      for (const { approvalId } of before.approvals) {
        if (!after.approvals.some((open) => open.approvalId === approvalId)) void reviews.close(approvalId);
      }
    },
    giveBack: (text, attach) => panel.giveBack(text, attach),
    folder: currentFolder,
    stopped: () => void client?.stopped(),
    mode: () => workspace.getConfiguration("agentls").get<Mode | "">("mode", "") || undefined,
  });
  // While the view has the focus there is no active editor: what was near stays so.
  const near = () => {
    if (window.activeTextEditor || window.visibleTextEditors.length === 0) chat.near(nearby(window.activeTextEditor));
  };
  const panel: Panel = new Panel(
    context.extensionUri,
    () => chat.view,
    (message) => void handle(parts, message),
    near,
  );
  const surroundings = new Surroundings(chat, panel);
  const reviews = new Reviews(chat);
  const approvals = new Approvals(chat, panel, reviews);
  const decisions = new Decisions(chat, reviews, {
    refused: (message) => {
      chat.set({ trouble: message });
      void window.showWarningMessage(message);
    },
    stillOpen: (approvalId) => panel.post({ type: "stillOpen", approvalId }),
  });
  const trust = new TrustNotices(chat, reviews);
  const credentials = new Credentials(context, chat, (key) => client?.trace.hide(key));
  const notebooks = new Notebooks((method, params) => client?.notify(method, params));
  const handlers = {
    [serverRequests.saveDocuments]: (params: { uris: string[] }) => edits.save(params),
    [serverRequests.getDiagnostics]: diagnostics,
    [serverRequests.getCredential]: (params: { provider: string }) => credentials.get(params),
  };
  const listener = {
    connected: (...answer: Parameters<Chat["connected"]>) => {
      notebooks.connected();
      // In Restricted Mode nothing is trusted before a session is opened.
      void withdrawTrust(answer[0])
        .then(() => chat.connected(...answer))
        .then(() => trust.check());
    },
    disconnected: chat.disconnected.bind(chat),
    silent: chat.silent.bind(chat),
    received: chat.received.bind(chat),
  };
  client = new Client(context, listener, handlers, {
    workspace: { handleApplyEdit: (params, next) => edits.apply(params, next) },
  });
  const parts: Parts = { chat, client, panel, approvals, decisions, reviews, credentials };
  context.subscriptions.push(
    client,
    panel,
    surroundings,
    approvals,
    reviews,
    notebooks,
    registerActions(),
    ...registerCommands(parts),
  );
  context.subscriptions.push(
    window.registerWebviewViewProvider(Panel.id, panel),
    window.onDidChangeActiveTextEditor(near),
    window.onDidChangeTextEditorSelection(near),
    workspace.onDidGrantWorkspaceTrust(() => void trust.check()),
    workspace.onDidChangeWorkspaceFolders(() => void trust.check()),
    workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("agentls.server")) void client?.restart();
      else if (event.affectsConfiguration("agentls.options")) {
        client?.notify("workspace/didChangeConfiguration", { settings: { agentls: options() } });
      }
    }),
  );
  void client.start();
}

export async function deactivate(): Promise<void> {
  await client?.stop();
}
