// The suggestion list: attachments after `@`, commands after `/`.

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Suggestion } from "../webviewProtocol";

interface Props {
  items: readonly Suggestion[];
  chosenIndex: number;
  onAccept: (suggestion: Suggestion) => void;
}

export function SuggestionList({ items, chosenIndex, onAccept }: Props): JSX.Element {
  const current = useRef<HTMLDivElement>(null);
  useEffect(() => current.current?.scrollIntoView({ block: "nearest" }), [chosenIndex]);
  return (
    <div class="suggestions" id="suggestions" role="listbox" aria-label="Suggestions" data-testid="suggestions">
      {items.map((suggestion, at) => (
        <div
          key={`${suggestion.kind} ${suggestion.label} ${suggestion.detail}`}
          ref={at === chosenIndex ? current : null}
          id={`suggestion-${at}`}
          role="option"
          tabIndex={-1}
          aria-selected={at === chosenIndex}
          class={at === chosenIndex ? "chosen" : ""}
          onMouseDown={(event) => {
            event.preventDefault();
            onAccept(suggestion);
          }}
        >
          <span class={`kind ${suggestion.kind}`} aria-hidden="true" />
          <span class="label">{suggestion.label}</span>
          <span class="dim">{suggestion.detail}</span>
        </div>
      ))}
    </div>
  );
}
