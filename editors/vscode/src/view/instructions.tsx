// The instruction files of the agent, in one line that expands.

import type { JSX } from "preact";
import { formatBytes } from "../format";
import type { InstructionFile, InstructionKind } from "../protocol";
import { getItemKey, type InstructionsItem } from "../state";
import { usePersistentState } from "./persistentState";
import { postMessage } from "./store";

const KIND_LABELS: Record<InstructionKind, string> = {
  prompt: "system prompt",
  soul: "agent identity",
  agents: "project instructions",
  tools: "tool instructions",
  skill: "skill",
};

export function InstructionsEntry({ item }: { item: InstructionsItem }): JSX.Element {
  const { files, leftOut = 0 } = item;
  const [open, setOpen] = usePersistentState(getItemKey(item), false);
  return (
    <details
      class="instructions"
      data-testid="instructions"
      open={open}
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary>Instructions: {files.length + leftOut === 0 ? "none" : summarizeFiles(files, leftOut)}</summary>
      <ul>
        {files.map((file) => (
          <li key={file.path}>
            <button
              type="button"
              class="file"
              title={file.path}
              onClick={() => postMessage({ type: "openPath", path: file.path })}
            >
              {file.name ?? getFileName(file.path)}
            </button>{" "}
            {KIND_LABELS[file.kind] ?? file.kind}, {formatBytes(file.bytes)}
            {!file.trusted && <span title="The agent uses this text and knows its source"> · not trusted</span>}
            {file.problem !== undefined && <span class="problem"> · {file.problem}</span>}
            {file.kind !== "skill" && <span class="path"> in {getFolderTail(file.path)}</span>}
          </li>
        ))}
        {leftOut > 0 && <li>and {leftOut} more</li>}
      </ul>
    </details>
  );
}

/** Returns text such as "AGENTS.md, TOOLS.md, 2 skills". */
function summarizeFiles(files: readonly InstructionFile[], leftOut: number): string {
  const names = new Map<string, number>();
  for (const file of files) {
    const name = file.kind === "skill" ? "skill" : getFileName(file.path);
    names.set(name, (names.get(name) ?? 0) + 1);
  }
  const parts = [...names].map(([name, count]) => {
    if (name === "skill") return count === 1 ? "1 skill" : `${count} skills`;
    return count === 1 ? name : `${count} × ${name}`;
  });
  if (leftOut > 0) parts.push(`${leftOut} more`);
  return parts.join(", ");
}

/** Returns the last parts of the folder. The tooltip shows the full path. */
function getFolderTail(path: string): string {
  const parts = path.split(/[/\\]/).slice(0, -1);
  return parts.length > 2 ? `…/${parts.slice(-2).join("/")}` : parts.join("/");
}

function getFileName(path: string): string {
  return path.split(/[/\\]/).pop() ?? path;
}
