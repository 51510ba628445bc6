//! `agentls chat`: a terminal client for daily work.
//!
//! One loop: read a line, run it as a command or a prompt, follow the prompt's turns. If the server crashes, the chat
//! restarts it and loads the session again; typed text is never lost (I16). `input` reads lines, `slash` parses them,
//! and `commands`, `changes`, `mcp`, `queue` and `trust` run them. `unread_text` chooses what a crash returns to the input.

mod changes;
mod commands;
mod input;
mod kept_draft;
mod mcp;
mod queue;
mod trust;
mod unread_text;

use std::path::{Path, PathBuf};

use input::{ChatInput, PromptLine};
use kept_draft::KeptDraft;
use unread_text::{CurrentLine, StoredTexts};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::client::{ClientError, Launch, ServerClient, ServerMessage};
use super::external_editor::ExternalEditor;
use super::keys::Draft;
use super::models::PROVIDER_HINT;
use super::screen::Screen;
use super::session_lookup::{
    NO_SESSION, apply_named_choice, describe_resumption, find_session, load_session, newest_session,
    parse_events,
};
use super::signals::{SignalAction, Signals};
use super::slash::{self, Slash, mode_name};
use super::style::{Color, Styler, fit_line, format_path};
use super::turn::{
    ApprovalMode, DOUBLE_PRESS, TurnEndReport, TurnInputState, TurnRunner, UserIntent, WaitFor,
    prepend_all_to_draft, prepend_to_draft,
};
use super::view::View;
use crate::base::clock::{self, Instant};
use crate::config::{ConfigPaths, Env};
use crate::protocol::table::method;
use crate::protocol::{
    CommandInfo, CompactParams, ListCommandsParams, ListCommandsResult, ListModelsParams, ListModelsResult,
    LoadSessionResult, Mode, NewSessionParams, NewSessionResult, PromptContent, PromptParams, ProviderHealth,
    ProviderInfo, QueueAction, QueuedContent, ResumeTurnParams, ServerNotification,
};

const NAME: &str = concat!("agentls ", env!("CARGO_PKG_VERSION"));
/// How many events of a loaded session are shown.
const SHOWN: u32 = 200;

/// The session that the chat starts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChatStart {
    /// A new session with this agent, or with the default one.
    New(Option<String>),
    /// The session last used in the folder.
    Last,
    /// The session with this id or id prefix.
    Id(String),
}

/// Why a chat ends with an error.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChatError {
    #[error("chat needs a terminal; in scripts, use `agentls run \"…\"`")]
    NoTerminal,
    #[error("the terminal cannot be used: {0}")]
    Terminal(#[from] rustyline::error::ReadlineError),
    #[error("cannot handle signals: {0}")]
    Signals(std::io::Error),
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Runs the chat until the user leaves. Returns the exit code.
pub(super) async fn run_chat(
    which: ChatStart,
    mut launch: Launch,
    env: &Env,
    config: Option<&Path>,
    terminal: bool,
) -> Result<i32, ChatError> {
    if !terminal {
        return Err(ChatError::NoTerminal);
    }
    let styler = Styler::from_env(env, true);
    let signals = Signals::install_handlers().map_err(ChatError::Signals)?;
    let places = ConfigPaths::from_env(env, config);
    let state_dir = places.as_ref().map(|places| places.state_dir.as_path());
    let input = ChatInput::open(styler, &launch.folder, state_dir)?;
    let kept = KeptDraft::new(&launch.folder, state_dir);
    launch.questions = true;
    launch.interruptible = true;
    let client = ServerClient::start(&launch).await?;
    let mut chat = Chat {
        view: View::new(Screen::with_stdout(true, styler)),
        client,
        signals,
        input: Some(input),
        draft: Draft::default(),
        kept,
        agent: None,
        own: Vec::new(),
        editor: ExternalEditor::from_env(env, &launch.folder),
        session: String::new(),
        mode: Mode::Ask,
        interrupted: None,
        listed: Vec::new(),
        granted: Vec::new(),
        home: env.home_dir().map(Path::to_path_buf),
        launch,
    };
    chat.view.calls.hint = Some("/output shows all");
    chat.open(which).await?;
    let done = chat.run_input_loop().await;
    chat.keep_draft();
    // Before the error returns, so that every way out says how to resume.
    chat.print_resume_hint().await;
    done?;
    chat.client.close().await;
    Ok(0)
}

struct Chat {
    /// The user's own commands, as last listed.
    own: Vec<CommandInfo>,
    /// The agent of new sessions.
    agent: Option<String>,
    view: View,
    client: ServerClient,
    signals: Signals,
    /// The line editor; `None` while another thread reads a line.
    input: Option<ChatInput>,
    draft: Draft,
    /// Where the draft goes if the chat ends before it is sent.
    kept: KeptDraft,
    editor: ExternalEditor,
    session: String,
    mode: Mode,
    /// When Ctrl-C was last pressed.
    interrupted: Option<Instant>,
    /// Session ids as last listed, so that a number can select one.
    listed: Vec<String>,
    /// Grant ids as last listed, so that a number can select one.
    granted: Vec<String>,
    home: Option<PathBuf>,
    launch: Launch,
}

/// Whether the chat continues after a line.
#[derive(PartialEq, Eq)]
enum ChatStep {
    GoOn,
    Leave,
}

impl Chat {
    async fn run_input_loop(&mut self) -> Result<(), ClientError> {
        loop {
            let line = self.read_line().await?;
            let line = match line {
                PromptLine::End => return Ok(()),
                PromptLine::Interrupted => {
                    let now = clock::now();
                    let before = self.interrupted.replace(now);
                    if before.is_some_and(|before| now.saturating_duration_since(before) < DOUBLE_PRESS) {
                        return Ok(());
                    }
                    self.show_hint("press Ctrl-C again or Ctrl-D to leave");
                    continue;
                }
                PromptLine::Cleared => {
                    // The next one is the first on an empty line.
                    self.interrupted = None;
                    self.show_hint("cleared; ↑ brings it back");
                    continue;
                }
                PromptLine::Words(line) if line.trim().is_empty() => continue,
                PromptLine::Words(line) => line,
            };
            self.interrupted = None;
            let current = CurrentLine {
                text: line.clone(),
                session: self.session.clone(),
                before: self.view.last_seq(),
            };
            let done = match slash::parse(&line) {
                Some(Ok(Slash::Own(name))) => self.run_custom_command(&name, &line).await,
                Some(Ok(command)) => self.run_slash_command(command).await,
                Some(Err(message)) => {
                    self.show_warning(message);
                    Ok(ChatStep::GoOn)
                }
                None => self.send_prompt(&line).await,
            };
            match done {
                Ok(ChatStep::GoOn) => {}
                Ok(ChatStep::Leave) => return Ok(()),
                Err(ClientError::Ended(reason)) => {
                    // The server may have ended before it read the line.
                    self.restart_server(&reason, Some(current)).await?;
                }
                Err(ClientError::Interrupted(SignalAction::Leave)) => return Ok(()),
                Err(error @ ClientError::Interrupted(SignalAction::Cancel)) => {
                    // So that a second Ctrl-C leaves.
                    self.interrupted = Some(clock::now());
                    self.show_warning(format!("! {error}; press Ctrl-C again to leave"));
                }
                Err(error) => self.show_note(Color::Red, &format!("✗ {error}")),
            }
        }
    }

    /// Reads a line, and collects what the server sends in the meantime.
    async fn read_line(&mut self) -> Result<PromptLine, ClientError> {
        let Some(mut input) = self.input.take() else {
            return Ok(PromptLine::End);
        };
        // Events from before the last answer belong above the new prompt, no matter how soon the user types.
        while let Some(notification) = self.client.pop_notification() {
            self.handle_notification(&notification);
        }
        self.view.screen.write_gap();
        // The line editor changes these settings; an interrupted read must restore them.
        let saved = rustix::termios::tcgetattr(std::io::stdin());
        let draft = std::mem::take(&mut self.draft);
        draft
            .cleared
            .iter()
            .for_each(|line| input.save_history_line(line));
        let draft = draft.text;
        let typed = input.typed_line();
        // Not what was typed before, if a signal comes before the thread has begun.
        typed.set(&draft);
        let mut reading = tokio::task::spawn_blocking(move || {
            let line = input.read(&draft);
            (input, line)
        });
        let mut notifications = Vec::new();
        let mut ended = None;
        let (input, line) = loop {
            tokio::select! { biased;
                read = &mut reading => match read {
                    Ok(read) => break read,
                    // The line editor panicked, and the input went with it.
                    Err(_) => return Ok(PromptLine::End),
                },
                action = self.signals.next() => if action == SignalAction::Leave {
                    // The blocking read cannot be canceled. Its thread stays behind, so restore the terminal here.
                    if let Ok(saved) = &saved {
                        let now = rustix::termios::OptionalActions::Now;
                        let _ = rustix::termios::tcsetattr(std::io::stdin(), now, saved);
                    }
                    self.view.screen.write("\n");
                    self.draft.text = typed.take();
                    return Ok(PromptLine::End);
                },
                incoming = self.client.next(), if ended.is_none() => match incoming {
                    Ok(ServerMessage::Notification(notification)) => notifications.push(notification),
                    // Only an answer to an interrupted request can still arrive, and nothing waits for it.
                    Ok(ServerMessage::Answer(..)) => {}
                    // The user finishes the line first, so nothing typed is lost (I16).
                    Err(error) => ended = Some(error),
                },
            }
        };
        self.input = Some(input);
        if line == PromptLine::End {
            // Empty after Ctrl-D, but not if the terminal is gone.
            self.draft.text = typed.take();
        }
        self.view.screen.note_foreign_newline();
        // Shown only now: while the line is edited, the terminal belongs to the line editor.
        for notification in notifications {
            self.handle_notification(&notification);
        }
        // Without a new line there is nothing to send, and no need for another server yet.
        if let (Some(ClientError::Ended(reason)), PromptLine::Words(_)) = (ended, &line) {
            self.restart_server(&reason, None).await?;
        }
        Ok(line)
    }

    /// Runs a command that the client does not know: the session may define it.
    async fn run_custom_command(&mut self, name: &str, line: &str) -> Result<ChatStep, ClientError> {
        self.list_own().await?;
        // A prompt of an MCP server that does not run yet is not in the list.
        if name.starts_with("mcp__") || self.own.iter().any(|command| command.name == name) {
            return self.send_prompt(line).await;
        }
        self.show_warning(slash::describe_unknown_command(name));
        Ok(ChatStep::GoOn)
    }

    /// Lists the user's own commands, for completion and `/help`.
    pub(super) async fn list_own(&mut self) -> Result<(), ClientError> {
        let params = ListCommandsParams {
            session_id: Some(self.session.clone()),
        };
        let listed: ListCommandsResult = self.request(method::LIST_COMMANDS, &params).await?;
        if let Some(input) = &mut self.input {
            let names = listed.commands.iter().map(|command| format!("/{}", command.name));
            // A file names the command. Do not offer a name with hidden characters, which may act on the terminal.
            input.complete_too(
                names.filter(|name| crate::base::text::reveal_hidden_characters(name) == *name),
            );
        }
        self.own = listed.commands;
        Ok(())
    }

    fn handle_notification(&mut self, notification: &ServerNotification) {
        if let ServerNotification::SessionUpdated(updated) = notification {
            self.mode = updated.mode.unwrap_or(self.mode);
        }
        self.view.handle_event(notification);
    }

    async fn request<P: Serialize, R: DeserializeOwned>(
        &mut self,
        method: &'static str,
        params: &P,
    ) -> Result<R, ClientError> {
        self.client.request(method, params).await
    }

    fn show_note(&mut self, color: Color, text: &str) {
        self.view.show_note(color, text);
    }

    fn show_warning(&mut self, text: impl AsRef<str>) {
        self.view.show_warning(text);
    }

    fn show_hint(&mut self, text: impl AsRef<str>) {
        self.view.show_hint(text);
    }

    async fn send_prompt(&mut self, line: &str) -> Result<ChatStep, ClientError> {
        self.view.screen.write_gap();
        let params = PromptParams {
            session_id: self.session.clone(),
            prompt: PromptContent::Text(line.to_owned()),
        };
        let sent = self.client.start_request(method::PROMPT, &params).await;
        if sent
            .as_ref()
            .is_err_and(|error| !matches!(error, ClientError::Ended(_)))
        {
            // It did not arrive, so put it into the next line (I16).
            prepend_to_draft(&mut self.draft, line);
        }
        self.follow_turns(WaitFor::Answered(sent?)).await
    }

    async fn resume_turn(&mut self) -> Result<ChatStep, ClientError> {
        let params = ResumeTurnParams {
            session_id: self.session.clone(),
        };
        let id = self.client.start_request(method::RESUME_TURN, &params).await?;
        self.follow_turns(WaitFor::Answered(id)).await
    }

    async fn compact_session(&mut self, instructions: Option<String>) -> Result<ChatStep, ClientError> {
        let params = CompactParams {
            session_id: self.session.clone(),
            instructions,
        };
        let id = self.client.start_request(method::COMPACT, &params).await?;
        self.follow_turns(WaitFor::Answered(id)).await
    }

    /// Follows a turn, and the turns that queued prompts start after it.
    async fn follow_turns(&mut self, until: WaitFor) -> Result<ChatStep, ClientError> {
        let mut next = self.run_turn(until).await?;
        while next == ChatStep::GoOn && self.queue_goes_on().await? {
            next = self.run_turn(WaitFor::TurnEnds).await?;
        }
        Ok(next)
    }

    async fn run_turn(&mut self, until: WaitFor) -> Result<ChatStep, ClientError> {
        // A copy: `watch` cannot borrow `self` while the turn borrows its parts.
        let mut mode = self.mode;
        let mut watch = |notification: &ServerNotification| {
            if let ServerNotification::SessionUpdated(updated) = notification {
                mode = updated.mode.unwrap_or(mode);
            }
            UserIntent::Continue
        };
        let turn = TurnRunner {
            client: &mut self.client,
            view: &mut self.view,
            signals: &mut self.signals,
            session: &self.session,
            answers: ApprovalMode::Person,
            draft: &mut self.draft,
            editor: Some(&self.editor),
            watch: &mut watch,
            input: TurnInputState::default(),
        };
        let report = turn.run_to_end(until).await;
        self.note_mode(mode);
        self.view.set_idle();
        let TurnEndReport {
            result,
            wants_to_leave,
            cancelled,
            ..
        } = report?;
        self.interrupted = cancelled;
        if let Some(Err(error)) = result {
            return Err(error);
        }
        Ok(if wants_to_leave {
            ChatStep::Leave
        } else {
            ChatStep::GoOn
        })
    }

    /// Keeps what was typed but not sent for the next chat in the folder.
    fn keep_draft(&mut self) {
        let draft = std::mem::take(&mut self.draft);
        prepend_all_to_draft(
            &mut self.draft,
            draft.unanswered.into_iter().chain([draft.text]).collect(),
        );
        if let Err(error) = self.kept.add(&self.draft.text) {
            self.show_warning(format!("! what you typed could not be kept: {error}"));
        }
    }

    /// Puts what an earlier chat kept into the next line.
    fn give_back_draft(&mut self) {
        if let Some(text) = self.kept.take() {
            prepend_to_draft(&mut self.draft, &text);
            self.show_hint("what you typed before the last chat ended is in the line again");
        }
    }

    /// Prints how to find this session again.
    async fn print_resume_hint(&mut self) {
        // Nothing was said, so there is nothing to resume.
        if self.session.is_empty() || self.view.last_seq() == 0 {
            return;
        }
        self.view.set_idle();
        let line = describe_resumption(&mut self.client, &self.session).await;
        self.show_hint(line);
    }

    /// Starts another server after a crash, and loads the session where it was. The old one may not have read the
    /// current line.
    async fn restart_server(
        &mut self,
        reason: &str,
        current: Option<CurrentLine>,
    ) -> Result<(), ClientError> {
        self.view.set_idle();
        let reason = match reason {
            "" => String::new(),
            reason => format!(" ({reason})"),
        };
        self.view.screen.write_gap();
        self.show_warning(format!("! the server exited{reason}; restarting it"));
        self.client = ServerClient::start(&self.launch).await?;
        if self.session.is_empty() {
            return Ok(());
        }
        let handled = self.view.last_seq();
        // A line that changed the session was read.
        let current = current.filter(|current| current.session == self.session);
        let before = current
            .as_ref()
            .map_or(handled, |current| current.before.min(handled));
        let line = current.map(|current| current.text);
        let unanswered = std::mem::take(&mut self.draft.unanswered);
        // Events that were shown before are not shown again; their texts are needed below.
        let loaded = match load_session(&mut self.client, &self.session, Some(before), 1_000).await {
            // Nothing was said in it, and its creation was not stored yet.
            Err(ClientError::Refused(_)) if handled == 0 => {
                let texts = line.into_iter().chain(unanswered).collect();
                prepend_all_to_draft(&mut self.draft, texts);
                return self.create_session().await;
            }
            loaded => loaded?,
        };
        let resumable = loaded.state.resumable_turn_id.is_some();
        let stored = StoredTexts {
            events: &parse_events(loaded.events.clone()).collect::<Vec<_>>(),
            handled,
            queued: &self.list_queued_prompts(&loaded).await,
        };
        // So much happened since the line that it was read.
        let line = line.filter(|_| !loaded.has_earlier);
        let texts = stored.list_unread_texts(line, unanswered);
        prepend_all_to_draft(&mut self.draft, texts);
        self.replay_session(loaded);
        self.show_hint(if resumable {
            "loaded the session; /resume continues the interrupted turn"
        } else {
            "the session is loaded"
        });
        Ok(())
    }

    /// Returns the full texts of the queue of a session that was just loaded, as far as the server gives them.
    async fn list_queued_prompts(&mut self, loaded: &LoadSessionResult) -> Vec<QueuedContent> {
        match &loaded.state.queue {
            Some(queue) if !queue.prompts.is_empty() => {
                let listed = self.ask_queue(QueueAction::List, None, None).await;
                listed.map(|listed| listed.prompts).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    async fn open(&mut self, which: ChatStart) -> Result<(), ClientError> {
        let id = match which {
            ChatStart::New(agent) => {
                self.agent = agent;
                return self.create_session().await;
            }
            ChatStart::Id(id) => find_session(&mut self.client, &id).await?,
            ChatStart::Last => match newest_session(&mut self.client, &self.launch.folder).await? {
                Some(id) => id,
                None => {
                    self.show_hint(NO_SESSION);
                    self.give_back_draft();
                    return self.create_session().await;
                }
            },
        };
        self.switch_session(id).await?;
        self.give_back_draft();
        let (client, launch) = (&mut self.client, &self.launch);
        let mode = apply_named_choice(client, &self.session, self.mode, launch).await?;
        if mode != self.mode {
            self.mode = mode;
            self.show_success(&format!("mode {}", mode_name(mode)));
        }
        Ok(())
    }

    /// Takes note of a mode that the user may have chosen. Later sessions of the chat start with it, except `full`.
    fn note_mode(&mut self, mode: Mode) {
        if mode != self.mode && mode != Mode::Full {
            self.launch.mode = Some(mode);
        }
        self.mode = mode;
    }

    async fn create_session(&mut self) -> Result<(), ClientError> {
        let params = NewSessionParams {
            cwd: Some(self.launch.folder.display().to_string()),
            agent: self.agent.clone(),
            // Otherwise the session starts with what the user chose last in this workspace.
            mode: self.launch.mode,
            model: self.launch.model.clone(),
            effort: self.launch.effort,
            remembered: true,
        };
        let created: NewSessionResult = self.request(method::NEW_SESSION, &params).await?;
        (self.session, self.mode) = (created.session_id, created.mode);
        self.view.begin_session(created.seq);
        self.show_header(None).await
    }

    async fn switch_session(&mut self, id: String) -> Result<(), ClientError> {
        let loaded = load_session(&mut self.client, &id, None, SHOWN).await?;
        (self.session, self.mode) = (id, loaded.state.mode);
        self.view.begin_session(0);
        self.show_header(loaded.state.title.as_deref()).await?;
        let resumable = loaded.state.resumable_turn_id.is_some();
        self.replay_session(loaded);
        if resumable {
            self.show_hint("/resume continues the last turn");
        }
        Ok(())
    }

    fn replay_session(&mut self, loaded: LoadSessionResult) {
        if loaded.has_earlier {
            self.show_hint("… earlier events are not shown");
        }
        self.mode = loaded.state.mode;
        let queue = loaded.state.queue.clone();
        self.view.replay_events(parse_events(loaded.events));
        if let Some(queue) = queue {
            self.view.show_queue(queue.prompts.len(), queue.paused);
        }
    }

    /// Reports before the first prompt that no provider is available. A local Ollama needs no configuration.
    async fn print_missing_setup(&mut self, listed: ListModelsResult) -> Result<(), ClientError> {
        let is_ready =
            |provider: &ProviderInfo| matches!(provider.health, ProviderHealth::Unknown | ProviderHealth::Ok);
        if listed.providers.iter().any(is_ready) {
            return Ok(());
        }
        let params = ListModelsParams {
            session_id: Some(self.session.clone()),
            check: Some("ollama".to_owned()),
            ..ListModelsParams::default()
        };
        let checked = self.request(method::LIST_MODELS, &params).await;
        let answers = checked.is_ok_and(|checked: ListModelsResult| {
            let mut providers = checked.providers.iter();
            let ollama = providers.find(|provider| provider.provider == "ollama");
            ollama.is_some_and(|ollama| ollama.health == ProviderHealth::Ok)
        });
        if answers && listed.providers.is_empty() {
            self.show_hint("no provider is configured: using the local Ollama");
            return Ok(());
        }
        for provider in &listed.providers {
            let reason = provider.message.as_deref().unwrap_or("it cannot be called");
            self.show_warning(format!("! {}: {reason}", provider.provider));
        }
        let line = format!("! no provider is available: {PROVIDER_HINT}; for details run `agentls doctor`");
        self.show_warning(line);
        Ok(())
    }

    /// Prints version, folder, model and mode.
    async fn show_header(&mut self, title: Option<&str>) -> Result<(), ClientError> {
        let params = ListModelsParams {
            session_id: Some(self.session.clone()),
            ..ListModelsParams::default()
        };
        let models: ListModelsResult = self.request(method::LIST_MODELS, &params).await?;
        self.list_own().await?;
        let current = models.models.iter().find(|model| model.current);
        let styler = self.view.screen.styler;
        let folder = format_path(&self.launch.folder, self.home.as_deref());
        self.view.screen.write_gap();
        let name = styler.paint_text(Color::Bold, NAME);
        let title = title.map(|title| format!(" · {title}")).unwrap_or_default();
        let available = self.view.screen.width().saturating_sub(NAME.len());
        let rest = fit_line(&format!(" · {folder}{title}"), available);
        let line = format!("{name}{}", styler.dim_text(&rest));
        self.view.screen.write_line(&line);
        self.view
            .set_known_model(current.map(|model| model.model.as_str()));
        let model = current.map_or("no model chosen yet", |model| model.model.as_str());
        let has_model = current.is_some();
        self.show_hint(format!(
            "{model} · mode {} · /help lists commands",
            mode_name(self.mode)
        ));
        self.show_hint("Esc or Ctrl-C interrupts · type to steer while it works · Ctrl-D leaves");
        if !has_model {
            self.print_missing_setup(models).await?;
        }
        Ok(())
    }
}
