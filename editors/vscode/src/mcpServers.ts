// The list of MCP servers: their states, and the actions restart, log, and login. The server owns the states; an open
// list follows its notifications. No address is opened before the user has seen it and agreed.

import { homedir } from "node:os";
import { env, type QuickPick, type QuickPickItem, ThemeIcon, window } from "vscode";
import { type Chat, omitUndefined } from "./chat";
import { openAddress } from "./externalLinks";
import { escapeLabel, escapeNotification, revealHidden } from "./format";
import type { McpServerInfo, McpServerState } from "./protocol";
import type { ReviewManager } from "./review";
import type { AgentEvent } from "./state";
import { trustFolder } from "./trust";

type ActionName = "restart" | "log" | "trust" | "login" | "cancelLogin" | "logout";

interface ServerAction {
  name: ActionName;
  icon: string;
  label: string;
}

/** Icon and description of each state. A later server may have other states. */
const STATES: Record<McpServerState, { icon: string; text: string }> = {
  disabled: { icon: "circle-slash", text: "disabled in the configuration" },
  untrusted: { icon: "shield", text: "off, because the folder is not trusted" },
  invalid: { icon: "warning", text: "its settings cannot be used" },
  idle: { icon: "circle-outline", text: "starts with the next turn" },
  starting: { icon: "sync~spin", text: "starting" },
  ready: { icon: "check", text: "ready" },
  failed: { icon: "error", text: "failed" },
  needsLogin: { icon: "sign-in", text: "needs a login" },
};

export interface McpItem extends QuickPickItem {
  server?: McpServerInfo;
}

const WAITING_FOR_LOGIN = { icon: "link-external", text: "waits for the login in your browser" };

function lookUpState({ state, loginUrl }: McpServerInfo): { icon: string; text: string } {
  if (loginUrl !== undefined) return WAITING_FOR_LOGIN;
  return STATES[state] ?? { icon: "question", text: state };
}

export function describeMcpState(server: McpServerInfo): string {
  const { state, toolCount, title, reason } = server;
  const parts = [lookUpState(server).text];
  if (state === "ready") parts.push(toolCount === 1 ? "1 tool" : `${toolCount} tools`);
  if (title !== undefined) parts.push(title);
  if (reason !== undefined) parts.push(reason);
  return parts.map(revealHidden).join(" · ");
}

/** The actions that make sense in the state of the server, the likeliest first. */
export function listMcpActions({ state, loginUrl, loggedIn }: McpServerInfo): ServerAction[] {
  const log: ServerAction = { name: "log", icon: "output", label: "Show Log and Tools" };
  if (state === "untrusted") return [{ name: "trust", icon: "shield", label: "Review and Trust Folder…" }, log];
  if (state === "disabled" || state === "invalid") return [log];
  const actions: ServerAction[] = [];
  if (state === "needsLogin") actions.push({ name: "login", icon: "sign-in", label: "Log In…" });
  if (loginUrl !== undefined) actions.push({ name: "cancelLogin", icon: "close", label: "Stop Waiting for the Login" });
  actions.push({ name: "restart", icon: "debug-restart", label: "Restart" }, log);
  if (loggedIn) actions.push({ name: "logout", icon: "sign-out", label: "Log Out" });
  return actions;
}

export function buildMcpItems(servers: readonly McpServerInfo[]): McpItem[] {
  return servers.map((server) => ({
    label: `$(${lookUpState(server).icon}) ${escapeLabel(server.name)}`,
    description: escapeLabel(describeMcpState(server)),
    detail: escapeLabel([server.target, ...formatSource(server)].filter((part) => part !== "").join(" · ")),
    buttons: listMcpActions(server).map(({ icon, label }) => ({ iconPath: new ThemeIcon(icon), tooltip: label })),
    alwaysShow: true,
    server,
  }));
}

/** Where a server is configured. The server and this extension run on the same machine. */
function formatSource({ source }: McpServerInfo): string[] {
  if (source === undefined) return [];
  const home = `${homedir()}/`;
  return [`from ${source.startsWith(home) ? `~/${source.slice(home.length)}` : source}`];
}

/** What is known of a server, as a document. */
export function buildMcpDocument(server: McpServerInfo): string {
  const list = (lines: readonly string[] | undefined) => (lines?.length ? lines.map(revealHidden) : ["(none)"]);
  return [
    `MCP server ${revealHidden(server.name)}: ${describeMcpState(server)}`,
    "",
    revealHidden(server.target),
    ...formatSource(server).map(revealHidden),
    "",
    "Its last lines on standard error:",
    "",
    ...list(server.stderr),
    "",
    "Tools that the agent may use:",
    "",
    ...list(server.tools),
    "",
  ].join("\n");
}

/** Shows the list, and keeps it current while it is open. */
export class McpServerList {
  #pick: QuickPick<McpItem> | undefined;
  /** Counts the fetches, so that an answer does not replace a later one. */
  #fetchId = 0;

  constructor(
    readonly chat: Chat,
    readonly reviews: ReviewManager,
  ) {}

  onNotification({ method }: AgentEvent): void {
    if (method === "agent/mcpServerUpdated") void this.#refresh();
  }

  async showServers(): Promise<void> {
    const pick = window.createQuickPick<McpItem>();
    this.#pick?.hide();
    this.#pick = pick;
    pick.title = "MCP Servers";
    pick.placeholder = "Select a server";
    pick.matchOnDescription = true;
    pick.matchOnDetail = true;
    pick.busy = true;
    pick.onDidTriggerItemButton(({ item, button }) => {
      const action = item.server && listMcpActions(item.server).find(({ label }) => label === button.tooltip);
      if (item.server && action) void this.#run(action.name, item.server);
    });
    pick.onDidAccept(() => {
      const [item] = pick.selectedItems;
      if (item?.server) void this.#selectAction(item.server);
    });
    pick.onDidHide(() => {
      if (this.#pick === pick) this.#pick = undefined;
      pick.dispose();
    });
    pick.show();
    await this.#refresh();
  }

  async #refresh(): Promise<void> {
    if (this.#pick === undefined) return;
    this.#fetchId += 1;
    const fetchId = this.#fetchId;
    const answer = await this.chat.request("agent/listMcpServers", omitUndefined({ sessionId: this.#sessionId }));
    const pick = this.#pick;
    if (pick === undefined || fetchId !== this.#fetchId) return;
    pick.busy = false;
    if (answer === undefined) return pick.hide();
    if (answer.servers.length === 0) pick.placeholder = "No MCP server is configured. The documentation says how.";
    const active = pick.activeItems[0]?.server?.name;
    pick.items = buildMcpItems(answer.servers);
    const activeItem = pick.items.find(({ server }) => server?.name === active);
    if (activeItem) pick.activeItems = [activeItem];
  }

  get #sessionId(): string | undefined {
    return this.chat.activeSession?.sessionId;
  }

  /** The keyboard does not reach the buttons of an entry. */
  async #selectAction(server: McpServerInfo): Promise<void> {
    const items = listMcpActions(server).map(({ name, icon, label }) => ({ label: `$(${icon}) ${label}`, name }));
    const choice = await window.showQuickPick(items, { title: `MCP Server ${escapeLabel(server.name)}` });
    if (choice) await this.#run(choice.name, server);
  }

  async #run(action: ActionName, server: McpServerInfo): Promise<void> {
    const params = { name: server.name, ...omitUndefined({ sessionId: this.#sessionId }) };
    switch (action) {
      case "restart":
        return this.#finishAction(await this.chat.request("agent/restartMcpServer", params));
      case "login":
        return this.#logIn(params);
      case "cancelLogin":
        return this.#finishAction(await this.chat.request("agent/cancelMcpLogin", params));
      case "logout":
        return this.#logOut(params);
      case "log":
        return this.reviews.showText(`MCP server ${server.name}`, buildMcpDocument(server));
      case "trust":
        return trustFolder(this.chat, this.reviews);
    }
  }

  /** Shows the list again after an action, because it shows how the server comes out of it. */
  async #finishAction(answer: object | undefined): Promise<void> {
    if (answer === undefined) return;
    await (this.#pick === undefined ? this.showServers() : this.#refresh());
  }

  async #logOut(params: { name: string; sessionId?: string }): Promise<void> {
    const answer = await this.chat.request("agent/logoutMcpServer", params);
    const problem = answer?.revocationProblem;
    if (problem !== undefined) {
      const text = `Logged out of ${params.name}, but the authorization server did not revoke the tokens: ${problem}`;
      void window.showWarningMessage(escapeNotification(text));
    }
    return this.#finishAction(answer);
  }

  /** Shows the address of a login, and opens it if the user agrees. */
  async #logIn(params: { name: string; sessionId?: string }): Promise<void> {
    const answer = await this.chat.request("agent/loginMcpServer", params);
    if (answer === undefined) return;
    this.#pick?.hide();
    const address = URL.canParse(answer.url) ? new URL(answer.url) : undefined;
    const isWebAddress = address?.protocol === "https:" || address?.protocol === "http:";
    const question = isWebAddress
      ? `Log in to ${escapeNotification(params.name)} at ${escapeNotification(address.host)}?`
      : `The MCP server ${escapeNotification(params.name)} has an address that is not one of the web.`;
    const choices = isWebAddress ? [OPEN_ADDRESS, COPY_ADDRESS] : [];
    const detail = escapeNotification(answer.url);
    const choice = await window.showInformationMessage(question, { modal: true, detail }, ...choices);
    if (choice === OPEN_ADDRESS) await openAddress(answer.url);
    else if (choice === COPY_ADDRESS) await env.clipboard.writeText(answer.url);
    else await this.chat.request("agent/cancelMcpLogin", params);
    await this.showServers();
  }
}

const OPEN_ADDRESS = "Open in Browser";
const COPY_ADDRESS = "Copy Address";
