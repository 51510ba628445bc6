// The list of what a call would delete or overwrite for good. It is next to the buttons, because a call can be allowed
// only after the user has seen it.

import type { JSX } from "preact";
import type { LossSummary } from "../losses";
import { Button } from "./components";
import { postMessage } from "./store";

export function LossList({ losses }: { losses: LossSummary }): JSX.Element {
  const { rows, more, fullText } = losses;
  return (
    <div class="losses" role="group" aria-label="Lost for good" data-testid="losses" data-must-be-read>
      <p class="losses-title">
        <span class="icon lost" aria-hidden="true" />
        This would be lost for good:
      </p>
      <ul>
        {rows.map(({ what, size }) => (
          <li key={what}>
            <span class="path">{what}</span>
            {size !== "" && <span class="dim size">{size}</span>}
          </li>
        ))}
      </ul>
      {(more !== undefined || fullText !== undefined) && (
        <p class="losses-more">
          {more}{" "}
          {fullText !== undefined && (
            <Button
              label="Show all"
              kind="quiet"
              ignoresEnter
              testId="all-losses"
              onPress={() => postMessage({ type: "openText", title: "Lost for good", text: fullText })}
            />
          )}
        </p>
      )}
    </div>
  );
}
