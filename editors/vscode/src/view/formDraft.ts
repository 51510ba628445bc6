// Text in the form of a question. It survives hiding the view, another session, and a reload.

import { useState } from "preact/hooks";
import { readDraft, saveDraft } from "./store";

/** Like `useState`, but kept under the key until it is cleared with the first value. */
export function useFormDraft(key: string, first: string): [string, (text: string) => void] {
  const [text, setText] = useState(() => readDraft(key) || first);
  return [
    text,
    (next) => {
      setText(next);
      saveDraft(key, next === first ? "" : next);
    },
  ];
}
