// Shows a turn's changes in the diff editor: one file or all files. Computes the contents from the current files and
// the diffs of this and later turns, without asking the server.

import { commands, type Uri, window } from "vscode";
import { escapeNotification } from "./format";
import { computeSides, listLaterDiffs } from "./hunks";
import type { FileDiff } from "./protocol";
import { getWorkingFolder, type ReviewManager, readFileText, resolvePath } from "./review";
import type { ChangesItem, ChatState } from "./state";

interface DiffPair {
  file: Uri;
  leftUri: Uri;
  rightUri: Uri;
}

/** Without a path, opens all files of the turn. */
export async function showTurnChanges(reviews: ReviewManager, turnId: string, path: string | undefined): Promise<void> {
  const state = reviews.chat.activeSession;
  const changes = state?.items.find((item): item is ChangesItem => item.kind === "changes" && item.id === turnId);
  if (state === undefined || changes === undefined) return;
  if (path !== undefined) {
    const file = changes.files.find((candidate) => candidate.path === path);
    if (file) await showFileDiff(reviews, state, changes, file);
    return;
  }
  const pairs: DiffPair[] = [];
  for (const file of changes.files) {
    const pair = await createDiffPair(reviews, state, changes, file);
    if (pair) pairs.push(pair);
  }
  const [first] = changes.files;
  if (changes.files.length === 1 && first) await showFileDiff(reviews, state, changes, first);
  else if (pairs.length > 0) {
    const all = pairs.map(({ file, leftUri, rightUri }) => [file, leftUri, rightUri]);
    const title = `${pairs.length} files (${describeSide(changes)})`;
    await commands.executeCommand("vscode.changes", title, all);
  } else
    await window.showInformationMessage(
      "None of these changes can be shown. The files are binary, or have changed since.",
    );
}

function describeSide({ standing }: ChangesItem): string {
  return standing === "reverted" ? "reverted changes" : "agent's changes";
}

async function showFileDiff(
  reviews: ReviewManager,
  state: ChatState,
  changes: ChangesItem,
  file: FileDiff,
): Promise<void> {
  const name = file.path.split("/").pop() ?? file.path;
  const pair = await createDiffPair(reviews, state, changes, file);
  if (pair) {
    await commands.executeCommand("vscode.diff", pair.leftUri, pair.rightUri, `${name} (${describeSide(changes)})`, {
      preview: true,
    });
  } else if (file.diff !== undefined) await reviews.showText(`${name}.diff`, file.diff);
  else if (file.kind === "deleted") {
    await window.showInformationMessage(escapeNotification(`${file.path} was a binary file and has been deleted.`));
  } else
    await commands.executeCommand("vscode.open", resolvePath(file.path, getWorkingFolder(state)), { preview: true });
}

async function createDiffPair(
  reviews: ReviewManager,
  state: ChatState,
  changes: ChangesItem,
  file: FileDiff,
): Promise<DiffPair | undefined> {
  // A file without a diff is binary.
  if (file.diff === undefined) return undefined;
  const uri = resolvePath(file.path, getWorkingFolder(state));
  const currentText = await readFileText(uri);
  const standing = changes.unrevertedPaths?.includes(file.path) ? "made" : changes.standing;
  const {
    before,
    after,
    file: currentSide,
  } = computeSides(file, standing, listLaterDiffs(state, changes, file.path), currentText);
  if (before === undefined || after === undefined) return undefined;
  // If the file does not exist on a side, show an empty text instead.
  const isMissing = standing === "reverted" ? file.kind === "created" : file.kind === "deleted";
  const toSideUri = (side: "before" | "after", text: string) =>
    currentSide === side && !isMissing ? uri : reviews.createVirtualFile(uri.path, `${side} ${changes.id}`, text);
  return { file: uri, leftUri: toSideUri("before", before), rightUri: toSideUri("after", after) };
}
