// Dispatches each webview message to the module that handles it.

import { commands, env, Range, Uri, window } from "vscode";
import { omitUndefined } from "./chat";
import { buttonHandlers, type CommandContext, commandTable, forkAndNotify, showProblems } from "./commands";
import { openAddress } from "./externalLinks";
import { escapeNotification } from "./format";
import { attachFiles, suggestMentions } from "./mentions";
import { editQueuedPrompt, enqueuePrompt, removeQueuedPrompt, saveQueuedPrompt, sendQueuedPrompt } from "./promptQueue";
import { getWorkingFolder, resolvePath } from "./review";
import { describeError } from "./serverErrors";
import { suggestCommands } from "./slashCommands";
import { takeOverSession } from "./takeover";
import { applyRevert, previewRevert } from "./turnActions";
import { showTurnChanges } from "./turnDiff";
import type { ViewMessage } from "./webviewProtocol";

export async function handleViewMessage(context: CommandContext, message: ViewMessage): Promise<void> {
  const { chat, chatView, reviews } = context;
  switch (message.type) {
    case "ready":
    case "drawn":
    case "attached":
      return;
    case "dropped":
      return chatView.composePrompt(attachFiles(message.uris));
    case "send":
      return message.isQueued
        ? enqueuePrompt(chat, message.text, message.attach)
        : chat.sendPrompt(message.text, message.attach);
    case "cancel":
      return chat.cancelTurn();
    case "resume":
      return chat.resumeTurn();
    case "suggest": {
      const { id, sign, query } = message;
      // The webview waits for an answer, also after a failure.
      const found = await (sign === "@" ? suggestMentions(query) : suggestCommands(chat, query)).then(
        (items) => ({ items }),
        (error: unknown) => ({ items: [], problem: describeError(error) }),
      );
      return chatView.postMessage({ type: "suggestions", id, ...found });
    }
    case "approve": {
      const { approvalId, decision, feedback, rule } = message;
      const approval = chat.activeSession?.approvals.find((open) => open.approvalId === approvalId);
      // Truncated arguments cannot be edited, because their end would be lost.
      if (message.input !== undefined && approval?.more?.["input"] !== undefined) {
        return chatView.postMessage({ type: "reopenQuestion", approvalId });
      }
      const input = message.input === undefined ? undefined : (JSON.parse(message.input) as unknown);
      return context.decisions.decideApproval(approvalId, decision, { feedback, rule, input });
    }
    case "discardReview":
      return reviews.discardReview(message.approvalId);
    case "limit": {
      const { limitId, raiseBy, stop } = message;
      return void (await chat.request("agent/limitRespond", {
        limitId,
        ...omitUndefined({ raiseBy }),
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
    case "showPendingSession":
      await chat.showPendingSession();
      // The view is visible, and the user may be elsewhere by now.
      return chatView.postMessage({ type: "showOpenQuestion" });
    case "takeOver":
      return takeOverSession(chat);
    case "review":
      return reviews.openReview(message.approvalId, message.isFromChat);
    case "openDiff":
      return reviews.showCompletedEdit(message.toolCallId);
    case "openChanges":
      return showTurnChanges(reviews, message.turnId, message.path);
    case "previewRevert":
      return previewRevert(chat, message.turnId, message.redo);
    case "confirmRevert":
      return applyRevert(chat);
    case "cancelRevert":
      return chat.updateView({ pendingRevert: undefined });
    case "fork":
      return forkAndNotify(chat, message.turnId);
    case "queue": {
      const { action, promptId, text } = message;
      const resolveUri = (path: string) => resolvePath(path, getWorkingFolder(chat.activeSession)).toString();
      if (action === "edit") return editQueuedPrompt(chat, promptId);
      if (action === "save") return saveQueuedPrompt(chat, promptId, text ?? "", resolveUri);
      return action === "remove" ? removeQueuedPrompt(chat, promptId) : sendQueuedPrompt(chat, promptId);
    }
    case "stopEditing":
      return chat.updateView({ queueEdit: undefined });
    case "openText": {
      const sessionId = chat.activeSession?.sessionId;
      const isTruncated = message.ref !== undefined && sessionId !== undefined;
      const text = isTruncated ? await chat.readContent(sessionId, message.ref ?? "") : message.text;
      if (text !== undefined) await reviews.showText(message.title, text);
      return;
    }
    case "openFile":
      return openFile(Uri.parse(message.uri), message.line);
    case "openPath":
      // On Windows, `\\host` paths make the system send the user's credentials to that host.
      if (/^[/\\]{2}/.test(message.path)) return;
      return openFile(resolvePath(message.path, getWorkingFolder(chat.activeSession)), message.line);
    case "openLink":
      // Allow only links for a browser or mail program. VS Code asks for confirmation.
      if (/^(https?|mailto):/i.test(message.href)) await openAddress(message.href);
      return;
    case "copy":
      return env.clipboard.writeText(message.text);
    case "insert": {
      const editor = window.activeTextEditor ?? window.visibleTextEditors[0];
      await editor?.edit((builder) => builder.replace(editor.selection, message.text));
      return;
    }
    case "sessions":
      return chat.setSessionListVisible(message.show, message.query);
    case "loadMoreSessions":
      return chat.loadMoreSessions();
    case "openSession":
      return chat.openSession(message.sessionId);
    case "renameSession":
      return chat.renameSession(message.sessionId, message.title);
    case "deleteSession": {
      const question = `Delete “${escapeNotification(message.title)}” permanently?`;
      if ((await window.showWarningMessage(question, { modal: true }, "Delete")) === "Delete") {
        await chat.deleteSession(message.sessionId);
      }
      return;
    }
    case "loadEarlier":
      return chat.loadEarlierEvents();
    case "dismissError":
      return chat.updateView({ error: undefined });
    case "dismissWarnings":
      return chat.updateView({ areWarningsDismissed: true });
    case "showProblems":
      return showProblems(chat);
    case "command": {
      if (message.name in commandTable) await commands.executeCommand(`agentls.${message.name}`);
      else buttonHandlers[message.name as keyof typeof buttonHandlers](context);
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
    await window.showWarningMessage(`Cannot open ${escapeNotification(uri.fsPath)}.`);
  }
}
