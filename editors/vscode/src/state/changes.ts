// Tracks which files turns changed, and which changes are reverted.

import type { TurnDiffNotification } from "../protocol";
import { putItem } from "./items";
import type { ChangesItem, ChatItem, ChatState, RevertRecord } from "./model";

export function applyTurnDiff(state: ChatState, p: TurnDiffNotification): ChatState {
  const { ofTurnId: turnId, seq, standing, files, unlisted, partial } = p;
  if (standing === "made") {
    return putItem(state, { kind: "changes", id: turnId, turnId, seq, files, unlisted, partial, standing });
  }
  const paths = unlisted === undefined ? files.map(({ path }) => path) : undefined;
  const reverts = [...state.reverts, { turnId, seq, standing, paths }];
  const count = files.length + (unlisted ?? 0);
  const verb = standing === "reverted" ? "Reverted" : "Redone";
  const text = `${verb} changes to ${count === 1 ? "1 file" : `${count} files`}`;
  const next = putItem(state, { kind: "note", id: `reverted ${seq}`, text });
  return { ...next, reverts, items: resolveStandings(next.items, reverts) };
}

/** Updates the standing of each change. A revert includes all later turns; a redo applies only to that revert. */
export function resolveStandings(items: readonly ChatItem[], reverts: readonly RevertRecord[]): readonly ChatItem[] {
  if (reverts.length === 0) return items;
  const findTurnStart = (turnId: string) => items.findIndex((item) => item.turnId === turnId);
  const from = reverts.map(({ turnId }) => findTurnStart(turnId));
  let changed = false;
  const next = items.map((item, at) => {
    if (item.kind !== "changes") return item;
    const resolved = resolveStanding(item, at, reverts, from);
    if (resolved.standing === item.standing && resolved.revertedWith === item.revertedWith) return item;
    changed = true;
    return resolved;
  });
  return changed ? next : items;
}

/** `from` contains the index where each reverted turn begins, or -1 if it is before the known items. */
function resolveStanding(
  item: ChangesItem,
  at: number,
  reverts: readonly RevertRecord[],
  from: readonly number[],
): ChangesItem {
  let standing: ChangesItem["standing"] = "made";
  let revertRecord: RevertRecord | undefined;
  reverts.forEach((revert, index) => {
    if (revert.seq < item.seq || at < (from[index] ?? -1)) return;
    if (revert.standing === "reverted" && standing !== "reverted") {
      standing = "reverted";
      revertRecord = revert;
    } else if (revert.standing === "redone" && revertRecord?.turnId === revert.turnId) {
      standing = "redone";
      revertRecord = undefined;
    }
  });
  const revertedPaths = (revertRecord as RevertRecord | undefined)?.paths;
  const unreverted =
    revertedPaths && item.files.map(({ path }) => path).filter((path) => !revertedPaths.includes(path));
  return {
    ...item,
    standing,
    revertedWith: (revertRecord as RevertRecord | undefined)?.turnId,
    unrevertedPaths: unreverted,
  };
}
