// Warnings about the configuration and the server: one line that opens a list and can be closed. Their number and length
// come from files that others wrote, so they must not take the place of the conversation.

import type { JSX } from "preact";
import { describeProblems } from "../problemText";
import type { ServerProblem, ViewState } from "../webviewProtocol";
import { Button } from "./components";
import { usePersistentState } from "./persistentState";
import { postMessage } from "./store";

export function ServerWarnings({ view }: { view: ViewState }): JSX.Element | null {
  const { warnings, areWarningsDismissed } = view;
  const [isOpen, setIsOpen] = usePersistentState("server warnings", false);
  if (warnings.problems.length === 0 || areWarningsDismissed) return null;
  const hasPlace = warnings.problems.some(({ place }) => place !== undefined);
  return (
    <section class="server-warnings" role="status" data-testid="server-warnings">
      <div class="head">
        <button type="button" class="fold" aria-expanded={isOpen} onClick={() => setIsOpen(!isOpen)}>
          <span class="chevron" aria-hidden="true" />
          <span class="title">⚠ {describeProblems(warnings)}</span>
        </button>
        <button
          type="button"
          class="quiet"
          title="Dismiss"
          aria-label="Dismiss the warnings"
          onClick={() => postMessage({ type: "dismissWarnings" })}
        >
          ×
        </button>
      </div>
      {isOpen && (
        <ul>
          {warnings.problems.map((problem) => (
            <ProblemRow key={JSON.stringify(problem)} problem={problem} />
          ))}
        </ul>
      )}
      {isOpen && hasPlace && (
        <Button
          label={warnings.unlisted > 0 ? `Show ${warnings.unlisted} more in Problems` : "Show in Problems"}
          kind="quiet"
          onPress={() => postMessage({ type: "showProblems" })}
        />
      )}
    </section>
  );
}

function ProblemRow({ problem }: { problem: ServerProblem }): JSX.Element {
  const { place, message } = problem;
  if (place === undefined) return <li>{message}</li>;
  const { file, line } = place;
  const name = file.split(/[/\\]/).slice(-2).join("/");
  return (
    <li>
      <button
        type="button"
        class="file"
        title={file}
        onClick={() => postMessage({ type: "openFile", uri: toFileUri(file), line: line > 0 ? line : undefined })}
      >
        <span class="path">{line > 0 ? `${name}:${line}` : name}</span>
      </button>{" "}
      {message}
    </li>
  );
}

function toFileUri(file: string): string {
  const path = file.replaceAll("\\", "/");
  return `file://${path.startsWith("/") ? "" : "/"}${path.split("/").map(encodeURIComponent).join("/")}`;
}
