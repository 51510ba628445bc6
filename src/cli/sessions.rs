//! `agentls sessions`: lists, shows, exports, searches, renames and deletes stored sessions.
//!
//! A client of the server, which owns the store; nothing here opens the database.

use std::io::{IsTerminal, Write};
use std::path::Path;

use serde::Serialize;

use super::args::{ExportAs, SessionsCommand};
use super::client::{ClientError, Launch, ServerClient};
use super::screen::{self, Screen};
use super::session_lookup::{find_session, list_sessions, parse_events};
use super::style::{Color, Styler, fit_line, format_age, format_path};
use super::view::View;
use crate::base::clock;
use crate::config::Env;
use crate::protocol::table::method;
use crate::protocol::{
    DeleteSessionParams, EmptyResult, EventHeader, ExportFormat, ExportSessionParams, ExportSessionResult,
    LoadSessionParams, LoadSessionResult, MessageBlock, MessageNotification, PartialMessage,
    RenameSessionParams, Role, ServerNotification, TruncatedFields,
};

/// How many sessions a list shows by default.
const LISTED: u32 = 50;

/// Runs a command of `agentls sessions`. Returns the exit code.
pub(super) async fn run_sessions_command(
    command: SessionsCommand,
    json: bool,
    launch: Launch,
    env: &Env,
) -> Result<i32, ClientError> {
    let mut client = ServerClient::start(&launch).await?;
    let terminal = std::io::stdout().is_terminal();
    let mut commands = SessionCommands {
        client: &mut client,
        screen: Screen::with_stdout(terminal, Styler::from_env(env, terminal)),
        home: env.home_dir(),
        json,
    };
    let done = match command {
        SessionsCommand::List { limit } => commands.print_sessions(None, limit.unwrap_or(LISTED)).await,
        SessionsCommand::Search { words } => commands.print_sessions(Some(words.join(" ")), LISTED).await,
        SessionsCommand::Show { id } => commands.print_session(&id).await,
        SessionsCommand::Export { id, format, output } => {
            commands.export_session(&id, format, output.as_deref()).await
        }
        SessionsCommand::Rename { id, title } => commands.rename_session(&id, title.join(" ")).await,
        SessionsCommand::Delete { id, yes } => commands.delete_session(&id, yes).await,
    };
    drop(commands);
    // Such as that a damaged store was moved aside.
    while let Some(notification) = client.pop_notification() {
        if let ServerNotification::Warning(warning) = *notification {
            let _ = writeln!(std::io::stderr(), "warning: {}", warning.message);
        }
    }
    client.close().await;
    done
}

struct SessionCommands<'a> {
    client: &'a mut ServerClient,
    screen: Screen,
    home: Option<&'a Path>,
    json: bool,
}

impl SessionCommands<'_> {
    async fn print_sessions(&mut self, query: Option<String>, limit: u32) -> Result<i32, ClientError> {
        let found = list_sessions(self.client, query, limit).await?;
        if self.json {
            print_json(&found);
            return Ok(0);
        }
        if found.is_empty() {
            self.screen.write_line("no sessions");
            return Ok(0);
        }
        let styler = self.screen.styler;
        let now = clock::wall_ms();
        let width = self.screen.width();
        for session in &found {
            let title = session.title.as_deref().unwrap_or("(no prompt yet)");
            let folder = format_path(Path::new(&session.cwd), self.home);
            let id = styler.paint_text(Color::Cyan, &session.session_id);
            let about = format!(
                "{} · {}",
                format_age(session.updated_at, now),
                fit_line(&folder, 40)
            );
            let available = width.saturating_sub(4);
            self.screen
                .write_line(&format!("{id}  {}", fit_line(title, available)));
            self.screen
                .write_line(&format!("    {}", styler.dim_text(&about)));
            if let Some(snippet) = &session.snippet {
                self.screen
                    .write_line(&format!("    {}", fit_line(snippet, available)));
            }
        }
        Ok(0)
    }

    async fn print_session(&mut self, id: &str) -> Result<i32, ClientError> {
        let id = find_session(self.client, id).await?;
        let mut pages = Vec::new();
        let mut before = None;
        let mut unfinished = None;
        loop {
            // Read-only needs no lock, so this also works while an editor has the session open.
            let params = LoadSessionParams {
                session_id: id.clone(),
                after_seq: None,
                before_seq: before,
                // The largest page of the protocol.
                tail: Some(1_000),
                read_only: true,
            };
            let mut page: LoadSessionResult = self.client.request(method::LOAD_SESSION, &params).await?;
            let events = std::mem::take(&mut page.events);
            if before.is_none() {
                unfinished = page
                    .partial
                    .take()
                    .map(|partial| as_message(&id, page.seq, partial));
            }
            before = events.first().and_then(|event| event.params["seq"].as_u64());
            // Without a number to continue from, stop instead of requesting the same page forever.
            let more = page.has_earlier && before.is_some();
            pages.push(events);
            if !more {
                break;
            }
        }
        // Pages arrive from the newest to the oldest.
        let events = pages.into_iter().rev().flatten();
        if self.json {
            events.for_each(|event| print_line(&event));
            return Ok(0);
        }
        let styler = self.screen.styler;
        let terminal = self.screen.is_terminal();
        let mut view = View::new(Screen::with_stdout(terminal, styler));
        view.replay_events(parse_events(events).chain(unfinished));
        Ok(0)
    }

    async fn export_session(
        &mut self,
        id: &str,
        format: ExportAs,
        output: Option<&Path>,
    ) -> Result<i32, ClientError> {
        let params = ExportSessionParams {
            session_id: find_session(self.client, id).await?,
            format: match format {
                ExportAs::Markdown => ExportFormat::Markdown,
                ExportAs::Json => ExportFormat::Json,
            },
        };
        let export: ExportSessionResult = self.client.request(method::EXPORT_SESSION, &params).await?;
        let Some(path) = output else {
            let text = format!("{}\n", export.text.trim_end());
            let _ = match format {
                ExportAs::Markdown => screen::print_to_stdout(&text),
                ExportAs::Json => screen::print_json(&text),
            };
            return Ok(0);
        };
        let written = tokio::fs::write(path, export.text).await;
        written.map_err(|error| ClientError::Failed(format!("cannot write {}: {error}", path.display())))?;
        self.screen.write_line(&format!("written to {}", path.display()));
        Ok(0)
    }

    async fn rename_session(&mut self, id: &str, title: String) -> Result<i32, ClientError> {
        let session_id = find_session(self.client, id).await?;
        let params = RenameSessionParams { session_id, title };
        let _: EmptyResult = self.client.request(method::RENAME_SESSION, &params).await?;
        self.screen.write_line("renamed");
        Ok(0)
    }

    async fn delete_session(&mut self, id: &str, yes: bool) -> Result<i32, ClientError> {
        let session_id = find_session(self.client, id).await?;
        if !yes && !confirm_deletion(&session_id)? {
            self.screen.write_line("nothing was deleted");
            return Ok(1);
        }
        let params = DeleteSessionParams { session_id };
        let _: EmptyResult = self.client.request(method::DELETE_SESSION, &params).await?;
        self.screen.write_line("deleted");
        Ok(0)
    }
}

/// Converts an unfinished message into the message that the session will contain once it is repaired.
fn as_message(session: &str, seq: u64, partial: PartialMessage) -> ServerNotification {
    let (reasoning, text) = (partial.reasoning, partial.text);
    let mut content = Vec::new();
    if !reasoning.is_empty() {
        let more = TruncatedFields::new();
        content.push(MessageBlock::Reasoning {
            text: reasoning,
            more,
        });
    }
    if !text.is_empty() {
        let more = TruncatedFields::new();
        content.push(MessageBlock::Text { text, more });
    }
    MessageNotification {
        header: EventHeader {
            session_id: session.to_owned(),
            // After the last event, or the view would treat it as a repetition.
            seq: seq + 1,
            turn_id: None,
            at: clock::wall_ms(),
        },
        message_id: partial.message_id,
        role: Role::Assistant,
        content,
        incomplete: true,
        hidden: false,
        more: TruncatedFields::new(),
    }
    .into()
}

/// Asks at the terminal. Without a terminal it fails, so that a script cannot delete by accident.
fn confirm_deletion(id: &str) -> Result<bool, ClientError> {
    if !std::io::stdin().is_terminal() {
        return Err(ClientError::Failed(
            "deleting needs confirmation at a terminal; otherwise pass --yes".to_owned(),
        ));
    }
    let mut out = std::io::stdout();
    let _ = write!(out, "Delete {id} permanently? Type yes: ");
    let _ = out.flush();
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    Ok(read.is_ok() && line.trim() == "yes")
}

fn print_json(value: &impl Serialize) {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    let _ = screen::print_json(&format!("{text}\n"));
}

fn print_line(value: &impl Serialize) {
    let text = serde_json::to_string(value).unwrap_or_default();
    let _ = screen::print_json(&format!("{text}\n"));
}
