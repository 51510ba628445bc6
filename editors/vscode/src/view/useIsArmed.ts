// The settle delay of a card that decides something.

import { useEffect, useState } from "preact/hooks";
import { APPEARED_EVENT, SETTLE_DELAY_MS } from "./questionFocus";

/** Whether the card accepts keys: a short delay after it appears or scrolls into view prevents stray answers. */
export function useIsArmed(cardRef: { current: HTMLElement | null }): boolean {
  const [isArmed, setIsArmed] = useState(false);
  useEffect(() => {
    const question = cardRef.current;
    let timer: ReturnType<typeof setTimeout>;
    const restartTimer = () => {
      setIsArmed(false);
      clearTimeout(timer);
      timer = setTimeout(() => setIsArmed(true), SETTLE_DELAY_MS);
    };
    restartTimer();
    question?.addEventListener(APPEARED_EVENT, restartTimer);
    return () => {
      clearTimeout(timer);
      question?.removeEventListener(APPEARED_EVENT, restartTimer);
    };
  }, []);
  return isArmed;
}
