// Quick picks for the agent, model, mode, effort, and turns.

import { type QuickPickItem, Uri, window, workspace } from "vscode";
import type { Chat } from "./chat";
import { escapeNotification } from "./format";
import {
  addTypedModel,
  buildModelChoices,
  buildModelQueries,
  describeBrokenProviders,
  type ModelChoice,
} from "./models";
import type { Effort, Mode } from "./protocol";
import { getWorkingFolder } from "./review";
import { type ChangesItem, describeChanges } from "./state";
import { listChangedTurns, listEndedTurns } from "./turnActions";
import { getCurrentChoice } from "./webviewProtocol";

export const MODES: Record<Mode, { label: string; detail: string }> = {
  plan: { label: "Plan", detail: "Only reads, and proposes a plan." },
  ask: { label: "Ask", detail: "Reading is allowed. Commands, edits, and network access need approval." },
  autoEdit: {
    label: "Auto-edit",
    detail: "Also allows edits inside the workspace, and commands that the sandbox confines in full.",
  },
  full: { label: "Full", detail: "Allows everything without asking." },
};

const EFFORTS: (QuickPickItem & { effort: Effort | undefined })[] = [
  { label: "Provider default", effort: undefined },
  { label: "None", detail: "Does not think.", effort: "none" },
  { label: "Minimal", detail: "Hardly thinks.", effort: "minimal" },
  { label: "Low", detail: "Thinks briefly.", effort: "low" },
  { label: "Medium", detail: "Thinks as needed.", effort: "medium" },
  { label: "High", detail: "Thinks longer.", effort: "high" },
  { label: "Extra high", detail: "Thinks even longer.", effort: "xhigh" },
  { label: "Maximum", detail: "Thinks as much as it can.", effort: "max" },
];

export async function selectMode(chat: Chat): Promise<void> {
  const current = getCurrentChoice(chat.view).mode;
  const items = Object.entries(MODES).map(([mode, { label, detail }]) => ({
    label,
    detail,
    description: mode === current ? "current" : "",
    mode: mode as Mode,
  }));
  const choice = await pickCurrent(items, "Select a Mode");
  if (choice) await chat.setMode(choice.mode);
}

/** Starts at the item that is described as current, so that Enter alone changes nothing. */
async function pickCurrent<T extends QuickPickItem>(items: T[], title: string): Promise<T | undefined> {
  const pick = window.createQuickPick<T>();
  Object.assign(pick, { title, matchOnDescription: true, items });
  pick.activeItems = items.filter(({ description }) => description?.startsWith("current"));
  const choice = await new Promise<T | undefined>((choose) => {
    pick.onDidAccept(() => choose(pick.selectedItems[0]));
    pick.onDidHide(() => choose(undefined));
    pick.show();
  });
  pick.dispose();
  return choice;
}

/** A session keeps its agent, so a selection applies to a new session. */
export async function selectAgent(chat: Chat): Promise<void> {
  const sessionId = chat.activeSession?.sessionId;
  const answer = await chat.request("agent/listAgents", sessionId === undefined ? {} : { sessionId });
  if (answer === undefined) return;
  const current = chat.view.agent?.name ?? "default";
  const items = answer.agents.map(({ name, description, mode, model, provider, tools }) => ({
    label: name,
    description: [name === current ? "current" : "", description ?? ""].filter((part) => part !== "").join(" · "),
    detail: [MODES[mode].label, model ?? provider ?? "", `${tools.length} tools`]
      .filter((part) => part !== "")
      .join(" · "),
  }));
  const title =
    sessionId === undefined ? "Select an Agent" : "Select an Agent (a different agent starts a new session)";
  const choice = await pickCurrent(items, title);
  if (choice && (sessionId === undefined || choice.label !== current)) chat.startNewSession(choice.label);
}

/** Shows the cached list at once, then the providers' lists. The user can also type any name. */
export async function selectModel(chat: Chat): Promise<void> {
  const pick = window.createQuickPick<ModelChoice>();
  pick.title = "Select a Model";
  pick.matchOnDetail = true;
  pick.busy = true;
  let choices: ModelChoice[] = [];
  const current = getCurrentChoice(chat.view).model;
  const refreshItems = () => {
    const active = pick.activeItems[0]?.model ?? current;
    pick.items = addTypedModel(choices, pick.value);
    const currentItems = pick.items.filter(({ model }) => model === active);
    if (currentItems.length > 0) pick.activeItems = currentItems;
  };
  pick.onDidChangeValue(refreshItems);
  const selection = new Promise<string | undefined>((choose) => {
    pick.onDidAccept(() => choose(pick.selectedItems[0]?.model));
    pick.onDidHide(() => choose(undefined));
  });
  pick.show();
  const fetchChoices = async () => {
    for (const params of buildModelQueries(chat.activeSession?.sessionId)) {
      const answer = await chat.request("agent/listModels", params);
      if (answer === undefined) continue;
      choices = buildModelChoices(answer, current);
      pick.placeholder = describeBrokenProviders(answer) || "Select a model, or type a name as provider/model";
      refreshItems();
    }
    pick.busy = false;
  };
  void fetchChoices();
  const model = await selection;
  pick.dispose();
  if (model !== undefined) await chat.setModel(model, chat.selectedEffort);
}

export async function selectEffort(chat: Chat): Promise<void> {
  const { model = "the model", effort } = getCurrentChoice(chat.view);
  const items = EFFORTS.map((item) => ({
    ...item,
    description: item.effort === (effort ?? undefined) ? "current" : "",
  }));
  const choice = await pickCurrent(items, `Select the Reasoning Effort for ${model}`);
  // Keep the current model and change only the effort.
  if (choice) await chat.setModel(undefined, choice.effort);
}

/** Picks a turn that changed files. */
export async function pickTurnChanges(chat: Chat, title: string): Promise<ChangesItem | undefined> {
  const turns = listChangedTurns(chat.activeSession?.items ?? []);
  if (turns.length === 0) {
    await window.showInformationMessage("No loaded turn changed any files.");
    return undefined;
  }
  const items = turns.map(({ changes, prompt }) => ({
    label: prompt === "" ? "Untitled turn" : prompt,
    description: `${describeChanges(changes)}${changes.standing === "reverted" ? " · reverted" : ""}`,
    detail: changes.files.map(({ path }) => path).join(", "),
    changes,
  }));
  return (await window.showQuickPick(items, { title, matchOnDetail: true }))?.changes;
}

export async function pickTurn(chat: Chat, title: string): Promise<string | undefined> {
  const turns = listEndedTurns(chat.activeSession?.items ?? []);
  if (turns.length === 0) {
    await window.showInformationMessage("No turn in this session has ended yet.");
    return undefined;
  }
  const items = turns.map(({ turnId, prompt }) => ({ label: prompt === "" ? "Untitled turn" : prompt, turnId }));
  return (await window.showQuickPick(items, { title }))?.turnId;
}

export async function exportSession(chat: Chat): Promise<void> {
  const session = chat.activeSession;
  if (session === undefined) return;
  const formats = [
    { label: "Markdown", detail: "A readable transcript.", format: "markdown" as const, ending: "md" },
    {
      label: "JSON",
      detail: "The session with all its events, for programs.",
      format: "json" as const,
      ending: "json",
    },
  ];
  const choice = await window.showQuickPick(formats, { title: "Select an Export Format" });
  if (!choice) return;
  const answer = await chat.request("agent/exportSession", { sessionId: session.sessionId, format: choice.format });
  if (answer === undefined) return;
  const name =
    (session.title ?? "session")
      .replace(/[^\p{L}\p{N} ._-]+/gu, " ")
      .trim()
      .slice(0, 60) || "session";
  const folder = getWorkingFolder(session);
  const uri = await window.showSaveDialog({
    title: "Export Session",
    filters: { [choice.label]: [choice.ending] },
    ...(folder === "" ? {} : { defaultUri: Uri.joinPath(Uri.file(folder), `${name}.${choice.ending}`) }),
  });
  if (uri === undefined) return;
  try {
    await workspace.fs.writeFile(uri, Buffer.from(answer.text));
    await window.showTextDocument(uri, { preview: true });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    await window.showWarningMessage(escapeNotification(`${uri.fsPath}: ${reason}`));
  }
}

/** Closes a circuit breaker, so that its provider or tool is called again at once. */
export async function resetCircuit(chat: Chat): Promise<void> {
  const sessionId = chat.activeSession?.sessionId;
  const open = chat.serverStatus?.circuits ?? [];
  const noticedCircuits = (chat.activeSession?.notices ?? []).flatMap(({ circuit }) => (circuit ? [circuit] : []));
  const all = new Map([...open, ...noticedCircuits].map((circuit) => [`${circuit.subject} ${circuit.name}`, circuit]));
  if (all.size === 0) {
    await window.showInformationMessage("No circuit breaker is open.");
    return;
  }
  const items = [...all.values()].map(({ subject, name }) => ({ label: name, description: subject, subject }));
  const choice = await window.showQuickPick(items, { title: "Select a Circuit Breaker to Reset" });
  if (!choice) return;
  const { subject, label: name } = choice;
  await chat.request("agent/resetCircuit", { subject, name, ...(sessionId === undefined ? {} : { sessionId }) });
}
