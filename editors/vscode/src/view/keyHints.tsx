// Key hints on the buttons of a question. The card's `data-keys` selects those that work now; see questionFocus.ts.

import type { JSX } from "preact";

const MODIFIER = /Mac/.test(navigator.platform) ? "⌘" : "Ctrl";
/** As in the manifest: on Windows, Ctrl+Alt is AltGr. */
const EDITOR_MODIFIERS = /Win/.test(navigator.platform) ? "Shift Alt" : `${MODIFIER} Alt`;

/** The chords of an action: near the empty input, with a draft in it, and from elsewhere in the editor. */
const CHORDS: Readonly<Record<string, Record<"near" | "draft" | "away", string>>> = {
  allow: { near: `${MODIFIER} Enter`, draft: `${MODIFIER} Enter`, away: `${EDITOR_MODIFIERS} Y` },
  // In a draft, Ctrl+Backspace deletes a word.
  deny: { near: `${MODIFIER} Backspace`, draft: `${EDITOR_MODIFIERS} N`, away: `${EDITOR_MODIFIERS} N` },
};

/** The letter floats over the button's corner and the chords share one place, so that no button moves. */
export function AnswerKeys({ letter, action }: { letter: string; action: string }): JSX.Element {
  return (
    <>
      <kbd class="letter">{letter.toUpperCase()}</kbd>
      <span class="chords">
        {Object.entries(CHORDS[action] ?? {}).map(([place, keys]) => (
          <kbd key={place} class={place}>
            {keys}
          </kbd>
        ))}
      </span>
    </>
  );
}

/** Ctrl+Enter inside a form. */
export function SubmitKeys(): JSX.Element {
  return <kbd class="submit">{MODIFIER} Enter</kbd>;
}
