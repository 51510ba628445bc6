// What a person has opened or closed in the chat. Entries out of sight leave the page, and come back as they were.

import { useState } from "preact/hooks";

const kept = new Map<string, unknown>();

export function keptChoice<T>(key: string): T | undefined {
  return kept.get(key) as T | undefined;
}

export function keepChoice(key: string, value: unknown): void {
  kept.set(key, value);
}

/** As `useState`, but it outlives the element. */
export function useKept<T>(key: string, first: T): [T, (value: T) => void] {
  const [value, setValue] = useState<T>(() => keptChoice<T>(key) ?? first);
  return [
    value,
    (next) => {
      keepChoice(key, next);
      setValue(next);
    },
  ];
}
