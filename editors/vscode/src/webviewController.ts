// What the page asks for: each of its messages, and who does it.

import { commands, env, Range, Uri, window } from "vscode";
import { given } from "./chat";
import { buttons, forkAndTell, type Parts, table } from "./commands";
import { notificationText } from "./format";
import { attachFiles, suggest, suggestCommands } from "./mentions";
import { edit, enqueue, remove, save, sendNow } from "./promptQueue";
import { fileOf, folderOf } from "./review";
import { takeOver } from "./takeover";
import { askRevert, doRevert } from "./turnActions";
import { showChanges } from "./turnDiff";
import type { FromView } from "./webviewProtocol";

export async function handle(parts: Parts, message: FromView): Promise<void> {
  const { chat, panel, reviews } = parts;
  switch (message.type) {
    case "ready":
    case "drawn":
    case "attached":
      return;
    case "dropped":
      return panel.compose(attachFiles(message.uris));
    case "send":
      return message.later ? enqueue(chat, message.text, message.attach) : chat.send(message.text, message.attach);
    case "cancel":
      return chat.cancel();
    case "resume":
      return chat.resume();
    case "suggest": {
      const { id, sign, query } = message;
      const items = sign === "@" ? await suggest(query) : await suggestCommands(chat, query);
      return panel.post({ type: "suggestions", id, items });
    }
    case "approve": {
      const { approvalId, decision, feedback, rule } = message;
      const approval = chat.shown?.approvals.find((open) => open.approvalId === approvalId);
      // What the server cut cannot be edited: its end would be lost.
      if (message.input !== undefined && approval?.more?.["input"] !== undefined) {
        return panel.post({ type: "stillOpen", approvalId });
      }
      const input = message.input === undefined ? undefined : (JSON.parse(message.input) as unknown);
      return parts.decisions.decide(approvalId, decision, { feedback, rule, input });
    }
    case "discardReview":
      return reviews.discard(message.approvalId);
    case "limit": {
      const { limitId, raiseBy, stop } = message;
      return void (await chat.request("agent/limitRespond", {
        limitId,
        ...given({ raiseBy }),
        ...(stop ? { stop } : {}),
      }));
    }
    case "question": {
      const { questionId, answers } = message;
      return void (await chat.request("agent/questionRespond", {
        questionId,
        ...(answers ? { answers } : { dismissed: true }),
      }));
    }
    case "showElsewhere":
      return chat.showElsewhere();
    case "takeOver":
      return takeOver(chat);
    case "review":
      return reviews.propose(message.approvalId);
    case "openDiff":
      return reviews.done(message.toolCallId);
    case "openChanges":
      return showChanges(reviews, message.turnId, message.path);
    case "askRevert":
      return askRevert(chat, message.turnId, message.redo);
    case "doRevert":
      return doRevert(chat);
    case "dropRevert":
      return chat.set({ revert: undefined });
    case "fork":
      return forkAndTell(chat, message.turnId);
    case "queue": {
      const { action, promptId, text } = message;
      const uriOf = (path: string) => fileOf(path, folderOf(chat.shown)).toString();
      if (action === "edit") return edit(chat, promptId);
      if (action === "save") return save(chat, promptId, text ?? "", uriOf);
      return action === "remove" ? remove(chat, promptId) : sendNow(chat, promptId);
    }
    case "stopEditing":
      return chat.set({ editing: undefined });
    case "openText": {
      const sessionId = chat.shown?.sessionId;
      const whole = message.ref !== undefined && sessionId !== undefined;
      const text = whole ? await chat.content(sessionId, message.ref ?? "") : message.text;
      if (text !== undefined) await reviews.text(message.title, text);
      return;
    }
    case "openFile":
      return openFile(Uri.parse(message.uri), message.line);
    case "openPath":
      // On Windows a path with two slashes names another machine, and opening it sends the person's credentials.
      if (/^[/\\]{2}/.test(message.path)) return;
      return openFile(fileOf(message.path, folderOf(chat.shown)), message.line);
    case "openLink":
      // Only what a browser or a mail program opens; a person confirms it in VS Code's own question.
      if (/^(https?|mailto):/i.test(message.href)) await env.openExternal(Uri.parse(message.href));
      return;
    case "copy":
      return env.clipboard.writeText(message.text);
    case "insert": {
      const editor = window.activeTextEditor ?? window.visibleTextEditors[0];
      await editor?.edit((builder) => builder.replace(editor.selection, message.text));
      return;
    }
    case "sessions":
      return chat.sessions(message.show, message.query);
    case "moreSessions":
      return chat.moreSessions();
    case "openSession":
      return chat.open(message.sessionId);
    case "renameSession":
      return chat.rename(message.sessionId, message.title);
    case "deleteSession": {
      const question = `Delete “${notificationText(message.title)}” for good?`;
      if ((await window.showWarningMessage(question, { modal: true }, "Delete")) === "Delete") {
        await chat.remove(message.sessionId);
      }
      return;
    }
    case "earlier":
      return chat.earlier();
    case "dismissTrouble":
      return chat.set({ trouble: undefined });
    case "command": {
      if (message.name in table) await commands.executeCommand(`agentls.${message.name}`);
      else buttons[message.name as keyof typeof buttons](parts);
    }
  }
}

async function openFile(uri: Uri, line: number | undefined): Promise<void> {
  try {
    const at = Math.max(0, (line ?? 1) - 1);
    await window.showTextDocument(uri, {
      preview: true,
      ...(line === undefined ? {} : { selection: new Range(at, 0, at, 0) }),
    });
  } catch {
    await window.showWarningMessage(`${notificationText(uri.fsPath)} cannot be shown.`);
  }
}
