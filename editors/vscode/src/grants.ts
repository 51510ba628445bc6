// Lists and revokes grants: rules that run without asking.

import { type QuickPickItem, ThemeIcon, window } from "vscode";
import type { Chat } from "./chat";
import { escapeLabel, escapeNotification, formatAge, wrapText } from "./format";
import type { Grant } from "./protocol";

/** VS Code truncates longer list entries, but a rule must be readable in full. */
const LINE_WIDTH = 64;

export interface GrantItem extends QuickPickItem {
  grant: Grant;
}

/** Splits each rule over several rows so that none of it is hidden. */
export function buildGrantItems(grants: readonly Grant[], now: number): GrantItem[] {
  const buttons = [{ iconPath: new ThemeIcon("trash"), tooltip: "Revoke…" }];
  return grants.flatMap((grant) => {
    const labels = wrapText(grant.rule, LINE_WIDTH).map(escapeLabel);
    const scope = grant.scope === "session" ? "this session only" : "every session in this folder";
    const detail = `${scope} · ${escapeLabel(grant.folder)} · allowed ${formatGrantAge(grant.grantedAt, now)}`;
    return labels.map((label, at) => ({
      label: at === 0 ? label : `… ${label}`,
      grant,
      alwaysShow: labels.length > 1,
      ...(at === 0 ? { buttons } : {}),
      ...(at === labels.length - 1 ? { detail } : {}),
    }));
  });
}

function formatGrantAge(at: number, now: number): string {
  const age = formatAge(at, now);
  return age === "now" ? "just now" : `${age} ago`;
}

/** Lists all grants and revokes the selected ones after confirmation. */
export async function showGrants(chat: Chat): Promise<void> {
  const sessionId = chat.activeSession?.sessionId;
  for (;;) {
    const answer = await chat.request("agent/listGrants", sessionId === undefined ? {} : { sessionId });
    if (answer === undefined) return;
    if (answer.grants.length === 0) {
      await window.showInformationMessage(
        "There are no grants. Only the mode and the configuration allow actions without asking.",
      );
      return;
    }
    const grant = await pickGrant(buildGrantItems(answer.grants, Date.now()));
    if (grant === undefined) return;
    const question = `Revoke this grant? Matching actions will need approval again.\n\n${escapeNotification(grant.rule)}`;
    if ((await window.showWarningMessage(question, { modal: true }, "Revoke")) !== "Revoke") continue;
    if ((await chat.request("agent/revokeGrant", { grantId: grant.grantId })) === undefined) return;
    chat.updateView({ lastAnswer: `Revoked: ${grant.rule}` });
  }
}

function pickGrant(items: readonly GrantItem[]): Promise<Grant | undefined> {
  return new Promise((resolve) => {
    const pick = window.createQuickPick<GrantItem>();
    pick.title = "Grants";
    pick.placeholder = "Select a rule to revoke";
    pick.items = items;
    const finishPick = (grant: Grant | undefined) => {
      resolve(grant);
      pick.hide();
    };
    pick.onDidTriggerItemButton(({ item }) => finishPick(item.grant));
    pick.onDidAccept(() => finishPick(pick.selectedItems[0]?.grant));
    pick.onDidHide(() => {
      resolve(undefined);
      pick.dispose();
    });
    pick.show();
  });
}
