//! Editing a call's input in the user's editor before it is approved.
//!
//! The turn goes on meanwhile: what the server sends is kept and handled after the editor closes. The editor process
//! belongs to [`external_editor`], questions and their answers to [`super`].

use serde_json::Value;

use super::{EditedInput, StepResult, TurnRunner};
use crate::base::clock;
use crate::cli::client::ClientError;
use crate::cli::external_editor::{self, ExternalEditError};
use crate::cli::signals::SignalAction;
use crate::protocol::ApprovalRequestedNotification;
use crate::protocol::table::method;

impl TurnRunner<'_> {
    /// Opens the first approval's input in the editor, then shows the approval with the changes.
    pub(super) async fn edit_input(&mut self) -> StepResult {
        let Some(approval) = self.input.questions.front().cloned() else {
            return Ok(());
        };
        let full_input = self.fetch_full_input(&approval).await?;
        let text = match self.input.edited.take() {
            Some(edited) => edited.text,
            None => external_editor::text(&full_input),
        };
        let edited = self.in_editor(&approval, &text).await?;
        // A key that closes the editor may still be down.
        self.input.held_key.require_rest(clock::now());
        // A leave request wins over whatever the editor left.
        match edited {
            _ if self.input.wants_to_leave => return Ok(()),
            Err(error) => {
                self.view.show_warning(format!("! {error}"));
            }
            Ok(text) => match external_editor::parse_input(&text) {
                Ok(input) if input == full_input => self.view.show_hint("nothing was changed"),
                Ok(input) => {
                    let input = Some(input);
                    self.input.edited = Some(EditedInput { text, input });
                }
                Err(error) => {
                    self.view.show_warning(format!("! {error}"));
                    if !matches!(error, ExternalEditError::Empty) {
                        self.input.edited = Some(EditedInput { text, input: None });
                    }
                }
            },
        }
        self.show_question(false).await
    }

    /// Waits for the editor to close and returns the text. Keeps server messages that arrive in the meantime.
    async fn in_editor(
        &mut self,
        approval: &ApprovalRequestedNotification,
        text: &str,
    ) -> Result<Result<String, ExternalEditError>, ClientError> {
        let opened = match self.editor {
            Some(editor) => editor.open(&approval.name, text),
            None => Err(ExternalEditError::NotChosen),
        };
        let mut open = match opened {
            Ok(open) => open,
            Err(open_error) => return Ok(Err(open_error)),
        };
        self.view
            .show_hint(format!("waiting until you close `{}` …", open.command()));
        let mut messages = Vec::new();
        let mut ended = None;
        let closed = loop {
            tokio::select! { biased;
                closed = open.wait_until_closed() => break closed,
                // Ctrl-C reaches the editor as well, and there it belongs to the editor.
                // The error is a placeholder: the caller looks at `leave` first.
                signal = self.signals.next() => if signal == SignalAction::Leave {
                    self.input.wants_to_leave = true;
                    break Err(ExternalEditError::Empty);
                },
                incoming = self.client.next(), if ended.is_none() => match incoming {
                    Ok(incoming) => messages.push(incoming),
                    Err(error) => ended = Some(error),
                },
            }
        };
        if self.input.wants_to_leave {
            open.terminate_editor().await;
        }
        self.client.give_back(messages);
        match ended {
            Some(error) => Err(error),
            None => Ok(closed),
        }
    }

    /// Returns the call's complete input; reads the rest if the server cut it.
    async fn fetch_full_input(
        &mut self,
        approval: &ApprovalRequestedNotification,
    ) -> Result<Value, ClientError> {
        let Some(more) = approval.more.get("input") else {
            return Ok(approval.input.clone());
        };
        let text = self
            .client
            .read_full_content(self.session, &more.reference)
            .await?;
        serde_json::from_str(&text).map_err(|error| ClientError::InvalidResponse {
            method: method::READ_CONTENT,
            error,
        })
    }
}
