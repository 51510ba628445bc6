// UI state, such as expanded entries, that survives unmounting. The conversation unmounts entries outside the viewport.

import { useState } from "preact/hooks";

const store = new Map<string, unknown>();

export function readPersistent<T>(key: string): T | undefined {
  return store.get(key) as T | undefined;
}

export function writePersistent(key: string, value: unknown): void {
  store.set(key, value);
}

/** Like `useState`, but survives unmounting. */
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
