// The one table of commands: what a person can ask for by name, key, menu or button.

import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { commands, type Diagnostic, type Disposable, env, Position, Uri, window, workspace } from "vscode";
import type { Approvals } from "./approvalNotifier";
import type { Chat } from "./chat";
import type { Panel } from "./chatViewProvider";
import type { Client } from "./client";
import type { Credentials } from "./credentials";
import type { Decisions } from "./decisions";
import { notificationText } from "./format";
import { showGrants } from "./grants";
import { attachReference, nearby, problem, selection } from "./mentions";
import {
  exportSession,
  pickChanges,
  pickTurn,
  resetCircuit,
  selectAgent,
  selectEffort,
  selectMode,
  selectModel,
} from "./pickers";
import { sendNow } from "./promptQueue";
import { folderOf, type Reviews } from "./review";
import { trustFolder } from "./trust";
import { askRevert, fork } from "./turnActions";
import { showChanges } from "./turnDiff";
import { TURN_RUNS } from "./webviewProtocol";

/** What commands act on. */
export interface Parts {
  chat: Chat;
  client: Client;
  panel: Panel;
  approvals: Approvals;
  decisions: Decisions;
  reviews: Reviews;
  credentials: Credentials;
}

type Command = (parts: Parts, ...args: never[]) => unknown;

export const table = {
  open: ({ panel }) => panel.compose([]),
  newSession: ({ chat, panel }) => {
    chat.begin();
    return panel.compose([]);
  },
  sessions: async ({ chat }) => {
    await commands.executeCommand("agentls.chat.focus");
    await chat.sessions(chat.view.list === undefined);
  },
  renameSession: async ({ chat }) => {
    const session = chat.shown;
    if (!session) return;
    const title = await window.showInputBox({ title: "Title of the session", value: session.title ?? "" });
    if (title) await chat.rename(session.sessionId, title);
  },
  ask: ({ panel }) => {
    const near = nearby(window.activeTextEditor);
    const attach = selection();
    if (attach.length === 0 && near) attach.push({ kind: "file", label: near.label, block: near.block });
    return panel.compose(attach);
  },
  fix: async ({ chat, panel }, uri: Uri, diagnostic: Diagnostic) => {
    await commands.executeCommand("agentls.chat.focus");
    const attach = [problem(uri, diagnostic)];
    if (chat.view.connection.state === "ready") await chat.send("Fix this problem.", attach);
    else await panel.compose(attach, "Fix this problem.");
  },
  cancel: ({ chat }) => chat.cancel(),
  resume: ({ chat }) => chat.resume(),
  compact: ({ chat }) => {
    if (chat.shown?.running === undefined) return chat.compact();
    return window.showInformationMessage("A turn runs: the session is compacted once it has ended.");
  },
  changes: async ({ chat, reviews }) => {
    const changes = await pickChanges(chat, "Show the changes of which turn?");
    if (changes) await showChanges(reviews, changes.id, undefined);
  },
  revert: async ({ chat }) => {
    // The palette and the menus do not offer it then; keys of a person's own may.
    if (chat.shown?.running !== undefined) return void window.showInformationMessage(TURN_RUNS);
    const changes = await pickChanges(chat, "Revert which turn, and all later ones? One that is reverted is redone.");
    if (!changes) return;
    await commands.executeCommand("agentls.chat.focus");
    await askRevert(chat, changes.revertedWith ?? changes.id, changes.standing === "reverted");
  },
  fork: async ({ chat }) => {
    const turnId = await pickTurn(chat, "Fork the session at the end of which turn?");
    if (turnId !== undefined) await forkAndTell(chat, turnId);
  },
  exportSession: ({ chat }) => exportSession(chat),
  sendQueued: ({ chat }) => sendNow(chat),
  approve: ({ approvals }) => approvals.answerShown("allow"),
  deny: ({ approvals }) => approvals.answerShown("deny"),
  review: ({ approvals }) => approvals.answerShown("diff"),
  reviewAllow: ({ decisions, reviews }) => {
    const { active } = reviews;
    return active && decisions.decide(active.approvalId, "allow");
  },
  reviewDeny: async ({ decisions, reviews }) => {
    const { active } = reviews;
    if (!active) return;
    const feedback = await window.showInputBox({
      title: "Deny the edit",
      prompt: "What shall the agent be told? May be empty.",
    });
    if (feedback === undefined) return;
    await decisions.decide(active.approvalId, "deny", feedback === "" ? {} : { feedback });
  },
  reviewRejectHunk: ({ reviews }) => reviews.rejectHunk(),
  grants: ({ chat }) => showGrants(chat),
  trust: ({ chat, reviews }) => trustFolder(chat, reviews),
  selectAgent: ({ chat }) => selectAgent(chat),
  selectModel: ({ chat }) => selectModel(chat),
  selectMode: ({ chat }) => selectMode(chat),
  selectEffort: ({ chat }) => selectEffort(chat),
  enterKey: async ({ chat, credentials }) => {
    if (await credentials.enter()) chat.set({ trouble: undefined });
  },
  forgetKey: ({ credentials }) => credentials.forget(),
  toggleFollow: async () => {
    const settings = workspace.getConfiguration("agentls");
    const on = !settings.get("follow", false);
    await settings.update("follow", on, true);
    window.setStatusBarMessage(on ? "Follows the agent's file" : "Does not follow the agent's file", 3000);
  },
  reloadConfig: async ({ chat }) => {
    const answer = await chat.request("agent/reloadConfig", {});
    const problems = (answer?.problems ?? []).map(
      ({ file, line, message }) => `${file}${line ? `:${line}` : ""}: ${message}`,
    );
    if (problems.length > 0) await window.showWarningMessage(notificationText(problems.join("\n")));
    else if (answer) await window.showInformationMessage("The configuration is read again; nothing is wrong in it.");
    await chat.refreshModels();
  },
  resetCircuit: ({ chat }) => resetCircuit(chat),
  openConfig: () => openConfig(),
  restart: ({ client }) => client.restart(),
  showLog: ({ client }) => client.log.show(true),
  walkthrough: () => commands.executeCommand("workbench.action.openWalkthrough", "agentls.agentls#start", false),
} satisfies Record<string, Command>;

/** What buttons of the page ask for and no command does. */
export const buttons = {
  openServerPath: () => commands.executeCommand("workbench.action.openSettings", "agentls.server.path"),
  openOllama: () => env.openExternal(Uri.parse("https://ollama.com/download")),
  retry: ({ chat }: Parts) => {
    const said = chat.shown?.items.findLast((item) => item.kind === "user");
    if (said?.kind !== "user") return;
    const { lastTyped } = chat;
    if (lastTyped?.text.trim() === said.text.trim()) return void chat.send(lastTyped.text, lastTyped.attach);
    // It was sent before this window: what it points at is known, its pictures are not.
    const attach = said.references.map((reference) => attachReference(reference, folderOf(chat.shown)));
    void chat.send(said.text, attach);
    if (said.images > 0)
      void window.showWarningMessage("The pictures of that prompt are not sent again. Attach them once more.");
  },
};

/** What comes after the turn is out of sight at once: a person is told where they are. */
export async function forkAndTell(chat: Chat, turnId: string): Promise<void> {
  const told = await fork(chat, turnId);
  if (told !== undefined) void window.showInformationMessage(notificationText(told));
}

const CONFIG = `# Settings of agentls. \`agentls config schema\` prints all of them.

# [provider.anthropic]
# api_key = "\${ANTHROPIC_API_KEY}"
# model = "claude-sonnet-5-5"
`;

/** Opens the user's configuration file; one that is not there yet begins with an example. */
async function openConfig(): Promise<void> {
  const base = process.platform === "darwin" ? "Library/Application Support" : ".config";
  const folder = process.env["XDG_CONFIG_HOME"] || join(homedir(), base);
  const file = process.env["AGENTLS_CONFIG"] || join(folder, "agentls", "config.toml");
  if (existsSync(file)) {
    await window.showTextDocument(Uri.file(file));
    return;
  }
  const editor = await window.showTextDocument(Uri.file(file).with({ scheme: "untitled" }));
  if (editor.document.getText() === "") await editor.edit((builder) => builder.insert(new Position(0, 0), CONFIG));
}

export function registerCommands(parts: Parts): Disposable[] {
  return Object.entries(table).map(([name, run]) =>
    commands.registerCommand(`agentls.${name}`, (...args: never[]) => (run as Command)(parts, ...args)),
  );
}
