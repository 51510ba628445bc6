// Prompts that were sent but that the agent has not taken yet.

import type { JSX } from "preact";
import type { PendingPrompt } from "../webviewProtocol";

export function PendingPrompts({ prompts }: { prompts: readonly PendingPrompt[] }): JSX.Element {
  return (
    <>
      {prompts.map(({ id, text, attached, steer }) => (
        <article
          key={id}
          class="user waiting"
          aria-label={steer ? "You, waiting for the agent's next step" : "You, sending"}
          data-testid="waiting"
        >
          <span class="tag">{steer ? "waiting for the next step" : "sending"}</span>
          {text !== "" && <div class="message-text">{text}</div>}
          {attached.length > 0 && (
            <ul class="references" aria-label="Attached">
              {attached.map((label) => (
                <li key={label} class="chip">
                  {label}
                </li>
              ))}
            </ul>
          )}
        </article>
      ))}
    </>
  );
}
