// Finds what `/` offers: commands of the editor, and the user's own prompts.

import type { Chat } from "./chat";
import type { Capabilities, CommandSuggestion, ViewCommand } from "./webviewProtocol";

interface EditorCommand {
  name: string;
  run: ViewCommand;
  detail: string;
  /** The server must have it. */
  needs?: keyof Capabilities;
  needsSession?: boolean;
}

/** The commands of the editor that `/` offers. */
const EDITOR_COMMANDS: EditorCommand[] = [
  { name: "new", run: "newSession", detail: "Start a new session" },
  { name: "sessions", run: "sessions", detail: "Show the sessions" },
  { name: "mode", run: "selectMode", detail: "Select what runs without asking" },
  { name: "model", run: "selectModel", detail: "Select the model" },
  { name: "effort", run: "selectEffort", detail: "Select how long the model thinks" },
  { name: "agent", run: "selectAgent", detail: "Select the agent", needs: "agents" },
  { name: "compact", run: "compact", detail: "Summarize the history", needs: "compact", needsSession: true },
  { name: "changes", run: "changes", detail: "Show the changes of a turn", needsSession: true },
  { name: "revert", run: "revert", detail: "Revert or redo a turn", needs: "revert", needsSession: true },
  { name: "fork", run: "fork", detail: "Continue from a turn in a new session", needs: "fork", needsSession: true },
  { name: "rename", run: "renameSession", detail: "Rename the session", needsSession: true },
  { name: "export", run: "exportSession", detail: "Save the session", needs: "exports", needsSession: true },
  { name: "mcp", run: "mcpServers", detail: "Show the MCP servers", needs: "mcp" },
  { name: "grants", run: "grants", detail: "Show what runs without asking" },
  { name: "trust", run: "trust", detail: "Trust this folder's settings", needs: "trust" },
  { name: "key", run: "enterKey", detail: "Enter an API key", needs: "credentials" },
];

/**
 * Returns slash commands that start with `query`, then those that contain it: the editor's, and the user's own ones. An
 * own command replaces one of the editor with its name.
 */
export async function suggestCommands(chat: Chat, query: string): Promise<CommandSuggestion[]> {
  const { activeSession: session, view } = chat;
  const params = session === undefined ? {} : { sessionId: session.sessionId };
  const answer = view.capabilities.commands ? await chat.request("agent/listCommands", params) : undefined;
  const own = (answer?.commands ?? []).map(({ name, description, argumentHint, problem, trusted }) => ({
    name,
    run: undefined,
    detail:
      problem === undefined
        ? [argumentHint, description, trusted ? undefined : "from an untrusted folder"]
            .filter((part) => part !== undefined)
            .join(" · ")
        : `unavailable: ${problem}`,
  }));
  const editor = EDITOR_COMMANDS.filter(
    ({ name, needs, needsSession }) =>
      (needs === undefined || view.capabilities[needs]) &&
      (!needsSession || session !== undefined) &&
      !own.some((command) => command.name === name),
  );
  const pattern = query.toLowerCase();
  const rankCommand = (name: string) => (name.toLowerCase().startsWith(pattern) ? 0 : 1);
  return [...own, ...editor]
    .filter(({ name }) => name.toLowerCase().includes(pattern))
    .sort((a, b) => rankCommand(a.name) - rankCommand(b.name))
    .map(({ name, detail, run }) => ({ kind: "command", label: `/${name}`, detail, run }));
}
