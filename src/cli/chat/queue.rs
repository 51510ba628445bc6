//! `/queue`: prompts that wait for the end of the turn, and the turns that they start.
//!
//! The server owns the queue and runs it; this module lists and edits it, and follows the turns.

use super::{Chat, ChatStep};
use crate::cli::client::ClientError;
use crate::cli::notification::extract_content_text;
use crate::cli::slash::QueueCommand;
use crate::cli::style::{clean_line, fit_line};
use crate::cli::turn::WaitFor;
use crate::protocol::table::method;
use crate::protocol::{PromptContent, QueueAction, QueueParams, QueueResult};

impl Chat {
    pub(super) async fn handle_queue_command(
        &mut self,
        command: QueueCommand,
    ) -> Result<ChatStep, ClientError> {
        let (action, prompt, number) = match command {
            QueueCommand::List => (QueueAction::List, None, None),
            QueueCommand::Add(words) => (QueueAction::Add, Some(words), None),
            QueueCommand::Drop(number) => (QueueAction::Remove, None, Some(number)),
            QueueCommand::Send(number) => (QueueAction::SendNow, None, number),
        };
        let prompt_id = match number {
            None => None,
            Some(number) => {
                let listed = self.ask_queue(QueueAction::List, None, None).await?;
                let at = number.checked_sub(1);
                let Some(one) = at.and_then(|at| listed.prompts.into_iter().nth(at)) else {
                    self.show_warning("no queued prompt with that number; see /queue");
                    return Ok(ChatStep::GoOn);
                };
                Some(one.prompt_id)
            }
        };
        let prompt = prompt.map(PromptContent::Text);
        let queue = self.ask_queue(action, prompt_id, prompt).await?;
        self.list_queue(&queue);
        if queue.turn_id.is_some() {
            return self.follow_turns(WaitFor::TurnEnds).await;
        }
        Ok(ChatStep::GoOn)
    }

    pub(super) async fn ask_queue(
        &mut self,
        action: QueueAction,
        prompt_id: Option<String>,
        prompt: Option<PromptContent>,
    ) -> Result<QueueResult, ClientError> {
        let params = QueueParams {
            session_id: self.session.clone(),
            action,
            prompt_id,
            prompt,
        };
        self.request(method::QUEUE, &params).await
    }

    fn list_queue(&mut self, queue: &QueueResult) {
        let width = self.view.screen.width();
        for (number, prompt) in queue.prompts.iter().enumerate() {
            let prompt_text = clean_line(&extract_content_text(&prompt.content), 400);
            let line = format!(
                "{:>3}  {}",
                number + 1,
                fit_line(&prompt_text, width.saturating_sub(6))
            );
            self.view.screen.write_line(&line);
        }
        let line = match (queue.prompts.is_empty(), queue.paused) {
            // The output of the turn that just started follows.
            (true, _) if queue.turn_id.is_some() => return,
            (true, _) => "the queue is empty; /queue TEXT adds a prompt for the end of the turn",
            (false, true) => "paused, because the last turn did not complete; /queue send continues",
            (false, false) => "waits for the turn's end",
        };
        self.show_hint(line);
    }

    /// Returns whether a queued prompt started a turn after the last one ended.
    pub(super) async fn queue_goes_on(&mut self) -> Result<bool, ClientError> {
        if self.view.queued {
            return Ok(true);
        }
        let waiting = self.view.waiting;
        if waiting == 0 {
            return Ok(false);
        }
        // The notification about the new turn may still be on its way, so ask whether the queue got shorter.
        let queue = self.ask_queue(QueueAction::List, None, None).await?;
        let goes_on = queue.prompts.len() < waiting;
        if !goes_on {
            self.view.show_queue(queue.prompts.len(), queue.paused);
        }
        Ok(goes_on)
    }
}
