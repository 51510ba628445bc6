// What the next prompt is sent with, and what the session has used.

import type { JSX } from "preact";
import { costOfUse, tokens } from "../format";
import type { Mode } from "../protocol";
import type { ViewState } from "../webviewProtocol";
import { post } from "./store";

const MODES: Record<Mode, string> = { plan: "Plan", ask: "Ask", autoEdit: "Edit freely", full: "Full" };

/** Agent, mode, model, effort; the context's and the cost's meters. */
export function Choices({ view }: { view: ViewState }): JSX.Element {
  const { chat, next, last, agent } = view;
  const mode = chat?.mode ?? next.mode ?? last.mode ?? agent?.mode;
  const model = chat?.model ?? next.model ?? last.model ?? agent?.model ?? view.defaultModel;
  const effort = chat ? chat.effort : next.effort === undefined ? last.effort : next.effort;
  const choose = (name: "selectMode" | "selectModel" | "selectEffort" | "selectAgent") =>
    post({ type: "command", name });
  const short = model?.split("/").slice(1).join("/") || model;
  return (
    <div class="choices">
      {agent?.several && (
        <button
          type="button"
          class="pick agent"
          data-testid="agent"
          title={
            chat ? "The session's agent; another one begins a new session" : "The agent of the session that begins"
          }
          onClick={() => choose("selectAgent")}
        >
          {agent.name === "default" ? "Agent" : agent.name}
        </button>
      )}
      <button
        type="button"
        class={`pick mode ${mode ?? ""}`}
        data-testid="mode"
        title="How freely the agent may act"
        onClick={() => choose("selectMode")}
      >
        {mode === undefined ? "Mode" : MODES[mode]}
      </button>
      <button
        type="button"
        class="pick model"
        data-testid="model"
        title={model ?? "The model"}
        onClick={() => choose("selectModel")}
      >
        {short ?? "Model"}
        {chat?.switchedFrom !== undefined && <span class="tag">stands in</span>}
      </button>
      <button type="button" class="pick" title="How hard the model thinks" onClick={() => choose("selectEffort")}>
        {!effort ? "Effort" : `Effort: ${effort}`}
      </button>
      <span class="meters">
        <Meter used={chat?.contextUsed} window={chat?.contextWindow} />
        {chat !== undefined && (chat.contextUsed ?? 0) > 0 && (
          <span title="What this session cost" data-testid="cost">
            {costOfUse(chat.costUsd)}
          </span>
        )}
      </span>
    </div>
  );
}

function Meter({ used, window: size }: { used?: number | undefined; window?: number | undefined }): JSX.Element | null {
  if (used === undefined || size === undefined || size === 0) return null;
  const percent = Math.min(100, Math.round((used / size) * 100));
  const told = `${tokens(used)} of ${tokens(size)} tokens of context used (${percent} %)`;
  return (
    <span class={`meter ${percent > 75 ? "full" : ""}`} role="img" aria-label={told} title={told} data-testid="context">
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <circle cx="8" cy="8" r="6" class="track" />
        <circle cx="8" cy="8" r="6" class="fill" stroke-dasharray={`${(percent / 100) * 37.7} 37.7`} />
      </svg>
      {percent} %
    </span>
  );
}
