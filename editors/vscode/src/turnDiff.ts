// What a turn changed, in the diff editor: one file, or all of them. The texts are made of the files as they are now and
// the diffs of the turn and of the later ones, so nothing is asked of the server.

import { commands, type Uri, window } from "vscode";
import { notificationText } from "./format";
import { laterOf, sides } from "./hunks";
import type { FileDiff } from "./protocol";
import { fileOf, folderOf, type Reviews, textOf } from "./review";
import type { ChangesItem, State } from "./state";

interface Pair {
  file: Uri;
  left: Uri;
  right: Uri;
}

/** Opens what the turn did to one file; without a path to all of its files. */
export async function showChanges(reviews: Reviews, turnId: string, path: string | undefined): Promise<void> {
  const state = reviews.chat.shown;
  const changes = state?.items.find((item): item is ChangesItem => item.kind === "changes" && item.id === turnId);
  if (state === undefined || changes === undefined) return;
  if (path !== undefined) {
    const file = changes.files.find((one) => one.path === path);
    if (file) await showOne(reviews, state, changes, file);
    return;
  }
  const pairs: Pair[] = [];
  for (const file of changes.files) {
    const pair = await pairOf(reviews, state, changes, file);
    if (pair) pairs.push(pair);
  }
  const [first] = changes.files;
  if (changes.files.length === 1 && first) await showOne(reviews, state, changes, first);
  else if (pairs.length > 0) {
    const all = pairs.map(({ file, left, right }) => [file, left, right]);
    const title = `${pairs.length} files: ${what(changes)}`;
    await commands.executeCommand("vscode.changes", title, all);
  } else
    await window.showInformationMessage("None of these changes can be shown: they are no text, or were changed since.");
}

function what({ standing }: ChangesItem): string {
  return standing === "reverted" ? "what the agent had changed" : "what the agent changed";
}

async function showOne(reviews: Reviews, state: State, changes: ChangesItem, file: FileDiff): Promise<void> {
  const name = file.path.split("/").pop() ?? file.path;
  const pair = await pairOf(reviews, state, changes, file);
  if (pair) {
    await commands.executeCommand("vscode.diff", pair.left, pair.right, `${name}: ${what(changes)}`, { preview: true });
  } else if (file.diff !== undefined) await reviews.text(`${name}.diff`, file.diff);
  else if (file.kind === "deleted") {
    await window.showInformationMessage(notificationText(`${file.path} is gone, and was no text.`));
  } else await commands.executeCommand("vscode.open", fileOf(file.path, folderOf(state)), { preview: true });
}

async function pairOf(reviews: Reviews, state: State, changes: ChangesItem, file: FileDiff): Promise<Pair | undefined> {
  // What is no text is not opened as such.
  if (file.diff === undefined) return undefined;
  const uri = fileOf(file.path, folderOf(state));
  const now = await textOf(uri);
  const standing = changes.left?.includes(file.path) ? "made" : changes.standing;
  const { before, after, file: itself } = sides(file, standing, laterOf(state, changes, file.path), now);
  if (before === undefined || after === undefined) return undefined;
  // A side on which the file is not there is empty, and no file.
  const gone = standing === "reverted" ? file.kind === "created" : file.kind === "deleted";
  const side = (which: "before" | "after", text: string) =>
    itself === which && !gone ? uri : reviews.virtual(uri.path, `${which} ${changes.id}`, text);
  return { file: uri, left: side("before", before), right: side("after", after) };
}
