// What a person has opened or closed in the chat. Entries out of sight leave the page, and come back as they were.

import { useState } from "preact/hooks";

const store = new Map<string, unknown>();

export function readPersistent<T>(key: string): T | undefined {
  return store.get(key) as T | undefined;
}

export function writePersistent(key: string, value: unknown): void {
  store.set(key, value);
}

/** As `useState`, but it outlives the element. */
export function usePersistentState<T>(key: string, first: T): [T, (value: T) => void] {
  const [value, setValue] = useState<T>(() => readPersistent<T>(key) ?? first);
  return [
    value,
    (next) => {
      writePersistent(key, next);
      setValue(next);
    },
  ];
}
