// The suggestion list: attachments after `@`, commands after `/`.

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Suggestion } from "../webviewProtocol";

interface Props {
  items: readonly Suggestion[];
  chosenIndex: number;
  onAccept: (one: Suggestion) => void;
}

export function SuggestionList({ items, chosenIndex, onAccept }: Props): JSX.Element {
  const current = useRef<HTMLDivElement>(null);
  useEffect(() => current.current?.scrollIntoView({ block: "nearest" }), [chosenIndex]);
  return (
    <div class="suggestions" id="suggestions" role="listbox" aria-label="Suggestions" data-testid="suggestions">
      {items.map((one, at) => (
        <div
          key={`${one.kind} ${one.label} ${one.detail}`}
          ref={at === chosenIndex ? current : null}
          id={`suggestion-${at}`}
          role="option"
          tabIndex={-1}
          aria-selected={at === chosenIndex}
          class={at === chosenIndex ? "chosen" : ""}
          onMouseDown={(event) => {
            event.preventDefault();
            onAccept(one);
          }}
        >
          <span class={`kind ${one.kind}`} aria-hidden="true" />
          <span class="label">{one.label}</span>
          <span class="dim">{one.detail}</span>
        </div>
      ))}
    </div>
  );
}
