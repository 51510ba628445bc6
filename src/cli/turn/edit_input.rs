//! Editing a call's input in the user's editor before it is approved.
//!
//! The turn goes on meanwhile: what the server sends is kept and handled after the editor closes. The editor process
//! belongs to [`external_editor`], questions and their answers to [`super`].

use serde_json::Value;

use super::{EditedInput, StepResult, TurnRunner};
use crate::cli::client::ClientError;
use crate::cli::external_editor::{self, ExternalEditError};
use crate::cli::signals::SignalAction;
use crate::protocol::ApprovalRequestedNotification;
use crate::protocol::table::method;

impl TurnRunner<'_> {
    /// Opens the first approval's input in the editor, then shows the approval with the changes.
    pub(super) async fn edit_input(&mut self) -> StepResult {
        let Some(asked) = self.input.questions.front().cloned() else {
            return Ok(());
        };
        let whole = self.whole_input(&asked).await?;
        let text = match self.input.edited.take() {
            Some(edited) => edited.text,
            None => external_editor::text(&whole),
        };
        // A leave request wins over whatever the editor left.
        match self.in_editor(&asked, &text).await? {
            _ if self.input.leave => return Ok(()),
            Err(why) => {
                self.view.show_warning(format!("! {why}"));
            }
            Ok(text) => match external_editor::parse_input(&text) {
                Ok(input) if input == whole => self.view.show_hint("nothing was changed"),
                Ok(input) => {
                    let input = Some(input);
                    self.input.edited = Some(EditedInput { text, input });
                }
                Err(why) => {
                    self.view.show_warning(format!("! {why}"));
                    if !matches!(why, ExternalEditError::Empty) {
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
        asked: &ApprovalRequestedNotification,
        text: &str,
    ) -> Result<Result<String, ExternalEditError>, ClientError> {
        let opened = match self.editor {
            Some(editor) => editor.open(&asked.name, text),
            None => Err(ExternalEditError::NotChosen),
        };
        let mut open = match opened {
            Ok(open) => open,
            Err(why) => return Ok(Err(why)),
        };
        self.view
            .show_hint(format!("waiting until you close `{}` …", open.command()));
        let mut said = Vec::new();
        let mut ended = None;
        let closed = loop {
            tokio::select! { biased;
                closed = open.wait_until_closed() => break closed,
                // Ctrl-C reaches the editor as well, and there it belongs to the editor.
                // The error is a placeholder: the caller looks at `leave` first.
                signal = self.signals.next() => if signal == SignalAction::Leave {
                    self.input.leave = true;
                    break Err(ExternalEditError::Empty);
                },
                incoming = self.client.next(), if ended.is_none() => match incoming {
                    Ok(incoming) => said.push(incoming),
                    Err(error) => ended = Some(error),
                },
            }
        };
        if self.input.leave {
            open.terminate_editor().await;
        }
        self.client.give_back(said);
        match ended {
            Some(error) => Err(error),
            None => Ok(closed),
        }
    }

    /// Returns the call's complete input; reads the rest if the server cut it.
    async fn whole_input(&mut self, asked: &ApprovalRequestedNotification) -> Result<Value, ClientError> {
        let Some(more) = asked.more.get("input") else {
            return Ok(asked.input.clone());
        };
        let text = self.client.read_whole(self.session, &more.reference).await?;
        serde_json::from_str(&text).map_err(|error| ClientError::InvalidResponse {
            method: method::READ_CONTENT,
            error,
        })
    }
}
