// What turns have changed of files, and how that stands after reverts.

import type { TurnDiffNotification } from "../protocol";
import { put } from "./items";
import type { ChangesItem, Item, Revert, State } from "./model";

export function turnDiff(state: State, p: TurnDiffNotification): State {
  const { ofTurnId: turnId, seq, standing, files, unlisted, partial } = p;
  if (standing === "made") {
    return put(state, { kind: "changes", id: turnId, turnId, seq, files, unlisted, partial, standing });
  }
  const paths = unlisted === undefined ? files.map(({ path }) => path) : undefined;
  const reverts = [...state.reverts, { turnId, seq, standing, paths }];
  const count = files.length + (unlisted ?? 0);
  const what = standing === "reverted" ? "Reverted" : "Redone";
  const text = `${what}: the changes of ${count === 1 ? "one file" : `${count} files`}`;
  const next = put(state, { kind: "note", id: `reverted ${seq}`, text });
  return { ...next, reverts, items: standings(next.items, reverts) };
}

/** The items with their standings: a revert takes all later turns along, and making again is of that revert alone. */
export function standings(items: readonly Item[], reverts: readonly Revert[]): readonly Item[] {
  if (reverts.length === 0) return items;
  const begins = (turnId: string) => items.findIndex((item) => item.turnId === turnId);
  const from = reverts.map(({ turnId }) => begins(turnId));
  let changed = false;
  const next = items.map((item, at) => {
    if (item.kind !== "changes") return item;
    const now = stands(item, at, reverts, from);
    if (now.standing === item.standing && now.revertedWith === item.revertedWith) return item;
    changed = true;
    return now;
  });
  return changed ? next : items;
}

/** `from`: where the turns of the reverts begin; -1: before all that is known. */
function stands(item: ChangesItem, at: number, reverts: readonly Revert[], from: readonly number[]): ChangesItem {
  let standing: ChangesItem["standing"] = "made";
  let by: Revert | undefined;
  reverts.forEach((revert, which) => {
    if (revert.seq < item.seq || at < (from[which] ?? -1)) return;
    if (revert.standing === "reverted" && standing !== "reverted") {
      standing = "reverted";
      by = revert;
    } else if (revert.standing === "redone" && by?.turnId === revert.turnId) {
      standing = "redone";
      by = undefined;
    }
  });
  const done = (by as Revert | undefined)?.paths;
  const left = done && item.files.map(({ path }) => path).filter((path) => !done.includes(path));
  return { ...item, standing, revertedWith: (by as Revert | undefined)?.turnId, left };
}
