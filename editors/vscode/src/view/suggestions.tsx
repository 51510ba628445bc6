// What fits what is being typed: after an `@` what can be attached, after a `/` the commands.

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Suggestion } from "../webviewProtocol";

interface Props {
  items: readonly Suggestion[];
  chosen: number;
  take: (one: Suggestion) => void;
}

export function Suggestions({ items, chosen, take }: Props): JSX.Element {
  const current = useRef<HTMLDivElement>(null);
  useEffect(() => current.current?.scrollIntoView({ block: "nearest" }), [chosen]);
  return (
    <div
      class="suggestions"
      id="suggestions"
      role="listbox"
      aria-label="What can be attached"
      data-testid="suggestions"
    >
      {items.map((one, at) => (
        <div
          key={`${one.kind} ${one.label} ${one.detail}`}
          ref={at === chosen ? current : null}
          id={`suggestion-${at}`}
          role="option"
          tabIndex={-1}
          aria-selected={at === chosen}
          class={at === chosen ? "chosen" : ""}
          onMouseDown={(event) => {
            event.preventDefault();
            take(one);
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
