// The suggestion list: attachments after `@`, commands after `/`.

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Suggestion } from "../webviewProtocol";

/** A search and its answer, which belongs to this query alone. */
export interface Search {
  sign: "@" | "/";
  query: string;
  /** Undefined until the answer arrives. */
  items?: readonly Suggestion[];
  /** Why the search failed. */
  problem?: string;
}

interface Props {
  search: Search;
  chosenIndex: number;
  onAccept: (suggestion: Suggestion) => void;
}

export function SuggestionList({ search, chosenIndex, onAccept }: Props): JSX.Element | null {
  const { items } = search;
  const current = useRef<HTMLDivElement>(null);
  useEffect(() => current.current?.scrollIntoView({ block: "nearest" }), [chosenIndex]);
  if (items === undefined || items.length === 0) {
    return (
      <p class={`suggestions ${items === undefined ? "searching" : ""}`} role="status" data-testid="no-suggestions">
        {items === undefined ? "Searching…" : describeNoMatch(search)}
      </p>
    );
  }
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

function describeNoMatch({ sign, query, problem }: Search): string {
  if (problem !== undefined) return `The search failed: ${problem}`;
  if (sign === "@") return query === "" ? "No files to attach" : `No match for “${query}”`;
  return `No command “/${query}”`;
}
