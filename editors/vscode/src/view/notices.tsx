// One line for a transient notice: a retry, a wait, or a circuit breaker.

import type { JSX } from "preact";
import type { Notice } from "../state";
import { Button, Clock } from "./components";
import { postMessage } from "./store";

export function NoticeLine({ notice, circuits }: { notice: Notice; circuits: boolean }): JSX.Element {
  return (
    <p class={`notice ${notice.kind}`} role="status" data-testid="notice" title={notice.next ?? ""}>
      {notice.text} {notice.endsAt !== undefined && <Clock endsAt={notice.endsAt} />}
      {notice.next && <span class="dim"> If that fails: {notice.next}</span>}
      {notice.circuit !== undefined && circuits && (
        <Button
          label="Reset circuit breaker…"
          kind="quiet"
          onPress={() => postMessage({ type: "command", name: "resetCircuit" })}
        />
      )}
    </p>
  );
}
