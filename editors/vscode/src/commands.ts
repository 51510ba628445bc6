// Owns the command table: everything a user can run by name, key, menu, or button. The work itself belongs to other
// modules.

import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { commands, type Diagnostic, type Disposable, env, Position, Uri, window, workspace } from "vscode";
import type { ApprovalNotifier } from "./approvalNotifier";
import type { Chat } from "./chat";
import type { ChatViewProvider } from "./chatViewProvider";
import type { AgentClient } from "./client";
import type { CredentialStore } from "./credentials";
import type { Decisions } from "./decisions";
import { escapeNotification } from "./format";
import { showGrants } from "./grants";
import type { McpServerList } from "./mcpServers";
import { attachReference, readActiveContext, readSelection, toDiagnosticAttachment } from "./mentions";
import {
  exportSession,
  pickTurn,
  pickTurnChanges,
  resetCircuit,
  selectAgent,
  selectEffort,
  selectMode,
  selectModel,
} from "./pickers";
import { sendQueuedPrompt } from "./promptQueue";
import { getWorkingFolder, type ReviewManager } from "./review";
import { trustFolder } from "./trust";
import { forkSession, previewRevert } from "./turnActions";
import { showTurnChanges } from "./turnDiff";
import { TURN_RUNNING_MESSAGE } from "./webviewProtocol";

/** Everything that commands can use. */
export interface CommandContext {
  chat: Chat;
  client: AgentClient;
  chatView: ChatViewProvider;
  notifier: ApprovalNotifier;
  decisions: Decisions;
  reviews: ReviewManager;
  credentials: CredentialStore;
  mcpServers: McpServerList;
}

type CommandHandler = (context: CommandContext, ...args: never[]) => unknown;

export const commandTable = {
  open: ({ chatView }) => chatView.composePrompt([]),
  newSession: ({ chat, chatView }) => {
    chat.startNewSession();
    return chatView.composePrompt([]);
  },
  sessions: async ({ chat }) => {
    await commands.executeCommand("agentls.chat.focus");
    await chat.setSessionListVisible(chat.view.sessionList === undefined);
  },
  renameSession: async ({ chat }) => {
    const session = chat.activeSession;
    if (!session) return;
    const title = await window.showInputBox({ title: "Rename Session", value: session.title ?? "" });
    if (title) await chat.renameSession(session.sessionId, title);
  },
  ask: ({ chatView }) => {
    const activeContext = readActiveContext(window.activeTextEditor);
    const attach = readSelection();
    if (attach.length === 0 && activeContext) attach.push({ kind: "file", ...activeContext });
    return chatView.composePrompt(attach);
  },
  fix: async ({ chat, chatView }, uri: Uri, diagnostic: Diagnostic) => {
    await commands.executeCommand("agentls.chat.focus");
    const attach = [toDiagnosticAttachment(uri, diagnostic)];
    if (chat.view.connection.state === "ready") await chat.sendPrompt("Fix this problem.", attach);
    else await chatView.composePrompt(attach, "Fix this problem.");
  },
  cancel: ({ chat }) => chat.cancelTurn(),
  resume: ({ chat }) => chat.resumeTurn(),
  compact: ({ chat }) => {
    if (chat.activeSession?.running === undefined) return chat.compactSession();
    return window.showInformationMessage("A turn is running. Compact the session after it ends.");
  },
  changes: async ({ chat, reviews }) => {
    const changes = await pickTurnChanges(chat, "Select a Turn to Show Its Changes");
    if (changes) await showTurnChanges(reviews, changes.id, undefined);
  },
  revert: async ({ chat }) => {
    // The palette and the menus disable the command, but custom keybindings can still run it.
    if (chat.activeSession?.running !== undefined) return void window.showInformationMessage(TURN_RUNNING_MESSAGE);
    const changes = await pickTurnChanges(
      chat,
      "Select a Turn to Revert with All Later Turns, or a Reverted Turn to Redo",
    );
    if (!changes) return;
    await commands.executeCommand("agentls.chat.focus");
    await previewRevert(chat, changes.revertedWith ?? changes.id, changes.standing === "reverted");
  },
  fork: async ({ chat }) => {
    const turnId = await pickTurn(chat, "Select the Turn to Fork After");
    if (turnId !== undefined) await forkAndNotify(chat, turnId);
  },
  exportSession: ({ chat }) => exportSession(chat),
  sendQueued: ({ chat }) => sendQueuedPrompt(chat),
  approve: ({ notifier }) => notifier.answerVisibleApproval("allow"),
  deny: ({ notifier }) => notifier.answerVisibleApproval("deny"),
  showQuestion: (context) => showQuestion(context),
  review: ({ notifier }) => notifier.answerVisibleApproval("diff"),
  reviewAllow: ({ decisions, reviews }) => {
    const { activeApproval: active } = reviews;
    return active && decisions.decideApproval(active.approvalId, "allow");
  },
  reviewDeny: async ({ decisions, reviews }) => {
    const { activeApproval: active } = reviews;
    if (!active) return;
    const feedback = await window.showInputBox({
      title: "Deny Edit",
      prompt: "Tell the agent what to do instead (optional).",
    });
    if (feedback === undefined) return;
    await decisions.decideApproval(active.approvalId, "deny", feedback === "" ? {} : { feedback });
  },
  reviewRejectHunk: ({ reviews }) => reviews.rejectHunk(),
  grants: ({ chat }) => showGrants(chat),
  trust: ({ chat, reviews }) => trustFolder(chat, reviews),
  mcpServers: ({ mcpServers }) => mcpServers.showServers(),
  selectAgent: ({ chat }) => selectAgent(chat),
  selectModel: ({ chat }) => selectModel(chat),
  selectMode: ({ chat }) => selectMode(chat),
  selectEffort: ({ chat }) => selectEffort(chat),
  enterKey: async ({ chat, credentials }) => {
    if (!(await credentials.enterKey())) return;
    chat.updateView({ error: undefined });
    // The prompt that no model could answer has waited for the key.
    const last = chat.activeSession?.items.at(-1);
    if (last?.kind === "turnEnd" && last.reason === "not_configured") resendPrompt(chat);
  },
  forgetKey: ({ credentials }) => credentials.forgetKey(),
  toggleFollow: async () => {
    const settings = workspace.getConfiguration("agentls");
    const isFollowing = !settings.get("follow", false);
    await settings.update("follow", isFollowing, true);
    window.setStatusBarMessage(isFollowing ? "Following the agent's file" : "Stopped following the agent's file", 3000);
  },
  reloadConfig: async ({ chat }) => {
    const answer = await chat.request("agent/reloadConfig", {});
    const count = answer?.problems.length ?? 0;
    if (answer) chat.setConfigProblems(answer.problems);
    if (count > 0) {
      const text = `Configuration reloaded. ${count === 1 ? "There is 1 problem" : `There are ${count} problems`}.`;
      if ((await window.showWarningMessage(text, "Show")) === "Show") await showProblems(chat);
    } else if (answer) await window.showInformationMessage("Configuration reloaded. No problems found.");
    await chat.refreshModels();
  },
  resetCircuit: ({ chat }) => resetCircuit(chat),
  openConfig: () => openConfigFile(),
  restart: ({ client }) => client.restart(),
  showLog: ({ client }) => client.logChannel.show(true),
  walkthrough: () => commands.executeCommand("workbench.action.openWalkthrough", "agentls.agentls#start", false),
} satisfies Record<string, CommandHandler>;

/** Webview buttons that have no command. */
export const buttonHandlers = {
  openServerPath: async () => {
    const [file] = (await window.showOpenDialog({ title: "Select the agentls Program", openLabel: "Select" })) ?? [];
    // In a remote window, VS Code writes this setting to the remote machine.
    if (file) await workspace.getConfiguration("agentls").update("server.path", file.fsPath, true);
  },
  openOllama: () => env.openExternal(Uri.parse("https://ollama.com/download")),
  retry: ({ chat }: CommandContext) => resendPrompt(chat),
};

/** Sends the last prompt again. */
function resendPrompt(chat: Chat): void {
  const lastPrompt = chat.activeSession?.items.findLast((item) => item.kind === "user");
  if (lastPrompt?.kind !== "user") return;
  const { lastDraft } = chat;
  if (lastDraft?.text.trim() === lastPrompt.text.trim()) return void chat.sendPrompt(lastDraft.text, lastDraft.attach);
  // The prompt is older than this window: its references are known, but its pictures are not.
  const attach = lastPrompt.references.map((reference) =>
    attachReference(reference, getWorkingFolder(chat.activeSession)),
  );
  void chat.sendPrompt(lastPrompt.text, attach);
  if (lastPrompt.images > 0)
    void window.showWarningMessage("The prompt was sent again without its pictures. Attach them again if needed.");
}

/** Shows the problems of the configuration in the editor's list. The server's status lists only some of them. */
export async function showProblems(chat: Chat): Promise<void> {
  const all = chat.view.warnings.unlisted > 0 ? await chat.request("agent/reloadConfig", {}) : undefined;
  if (all) chat.setConfigProblems(all.problems);
  await commands.executeCommand("workbench.actions.view.problems");
}

/** Shows an open question: in the shown session, or else in another one. */
export async function showQuestion({ chat, chatView }: Pick<CommandContext, "chat" | "chatView">): Promise<void> {
  const { openRequestCount, pendingElsewhere } = chat.view;
  if (openRequestCount === pendingElsewhere) await chat.showPendingSession();
  else await chat.setSessionListVisible(false);
  await chatView.showPendingQuestion();
}

/** A fork hides everything after the turn, so tell the user which session is shown. */
export async function forkAndNotify(chat: Chat, turnId: string): Promise<void> {
  const message = await forkSession(chat, turnId);
  if (message !== undefined) void window.showInformationMessage(escapeNotification(message));
}

const CONFIG_TEMPLATE = `# agentls configuration. Run \`agentls config schema\` to print all settings.

# [provider.anthropic]
# api_key = "\${ANTHROPIC_API_KEY}"
# model = "claude-sonnet-5-5"
`;

/** Opens the user's configuration file. A missing file opens with a template. */
async function openConfigFile(): Promise<void> {
  const configFolder = process.platform === "darwin" ? "Library/Application Support" : ".config";
  const folder = process.env["XDG_CONFIG_HOME"] || join(homedir(), configFolder);
  const file = process.env["AGENTLS_CONFIG"] || join(folder, "agentls", "config.toml");
  if (existsSync(file)) {
    await window.showTextDocument(Uri.file(file));
    return;
  }
  const editor = await window.showTextDocument(Uri.file(file).with({ scheme: "untitled" }));
  if (editor.document.getText() === "")
    await editor.edit((builder) => builder.insert(new Position(0, 0), CONFIG_TEMPLATE));
}

export function registerCommands(context: CommandContext): Disposable[] {
  return Object.entries(commandTable).map(([name, run]) =>
    commands.registerCommand(`agentls.${name}`, (...args: never[]) => (run as CommandHandler)(context, ...args)),
  );
}
