// The bar below the input: settings of the session, context meter, and cost.

import type { JSX } from "preact";
import { formatCost, formatTokens } from "../format";
import type { Mode } from "../protocol";
import { getCurrentChoice, type ViewState } from "../webviewProtocol";
import { postMessage } from "./store";

const MODE_LABELS: Record<Mode, string> = { plan: "Plan", ask: "Ask", autoEdit: "Auto-edit", full: "Full" };

export function SessionBar({ view }: { view: ViewState }): JSX.Element {
  const { chat, agent } = view;
  const { mode, model, effort } = getCurrentChoice(view);
  const openPicker = (name: "selectMode" | "selectModel" | "selectEffort" | "selectAgent") =>
    postMessage({ type: "command", name });
  const modelName = model?.split("/").slice(1).join("/") || model;
  return (
    <div class="session-bar">
      {agent?.hasAlternatives && (
        <button
          type="button"
          class="picker agent"
          data-testid="agent"
          title={chat ? "Agent of this session (selecting another starts a new session)" : "Agent for the new session"}
          onClick={() => openPicker("selectAgent")}
        >
          {agent.name === "default" ? "Agent" : agent.name}
        </button>
      )}
      <button
        type="button"
        class={`picker mode ${mode ?? ""}`}
        data-testid="mode"
        title="Approval mode"
        onClick={() => openPicker("selectMode")}
      >
        {mode === undefined ? "Mode" : MODE_LABELS[mode]}
      </button>
      <button
        type="button"
        class="picker model"
        data-testid="model"
        title={model ?? "Model"}
        onClick={() => openPicker("selectModel")}
      >
        {modelName ?? "Model"}
        {chat?.switchedFrom !== undefined && <span class="tag">fallback</span>}
      </button>
      <button type="button" class="picker" title="Reasoning effort" onClick={() => openPicker("selectEffort")}>
        {!effort ? "Effort" : `Effort: ${effort}`}
      </button>
      <span class="meters">
        <ContextMeter usedTokens={chat?.contextUsed} window={chat?.contextWindow} />
        {chat !== undefined && (chat.contextUsed ?? 0) > 0 && (
          <span title="Cost of this session" data-testid="cost">
            {formatCost(chat.costUsd)}
          </span>
        )}
      </span>
    </div>
  );
}

function ContextMeter({
  usedTokens,
  window: size,
}: {
  usedTokens?: number | undefined;
  window?: number | undefined;
}): JSX.Element | null {
  if (usedTokens === undefined || size === undefined || size === 0) return null;
  const percent = Math.min(100, Math.round((usedTokens / size) * 100));
  const description = `${formatTokens(usedTokens)} of ${formatTokens(size)} tokens of context used (${percent}%)`;
  return (
    <span
      class={`meter ${percent > 75 ? "full" : ""}`}
      role="img"
      aria-label={description}
      title={description}
      data-testid="context"
    >
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <circle cx="8" cy="8" r="6" class="track" />
        <circle cx="8" cy="8" r="6" class="fill" stroke-dasharray={`${(percent / 100) * 37.7} 37.7`} />
      </svg>
      {percent}%
    </span>
  );
}
