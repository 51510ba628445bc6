//! A running server of a scenario, as its client sees it.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::event_log::{EventLog, LoggedEvent};
use super::{Options, Scenario};
use crate::base::CancellationToken;
use crate::base::clock;
use crate::base::spawn::{AbortOnDrop, spawn};
use crate::config::{ConfigPaths, ConfigSource, Diagnostic, Env, Flags, Redactor};
use crate::domain::*;
use crate::provider::Effort;
use crate::session::*;
use crate::store::{ContentChoice, Store};
use crate::tool::NoEditor;
use crate::workspace::{Folder, WorkspaceShared};

/// How much virtual time a wait may take: longer than any limit of a test.
const WAIT_LIMIT: Duration = Duration::from_secs(2 * 86_400);

/// A running server. Dropping it shuts the server down.
pub(in crate::session::tests) struct Client {
    pub(in crate::session::tests) scenario: Scenario,
    pub(in crate::session::tests) sessions: SessionManager,
    pub(in crate::session::tests) configured: Arc<ConfigStore>,
    log: EventLog,
    writer: Cell<Option<AbortOnDrop<()>>>,
}

/// A turn that a client has asked for.
#[derive(Debug)]
#[must_use = "a prompt that nobody waits for is canceled"]
pub(in crate::session::tests) struct PendingTurn(oneshot::Receiver<Result<TurnHandle, CommandError>>);

impl Client {
    pub(super) fn start(scenario: Scenario, options: Options) -> Self {
        let log = EventLog::default();
        let started = scenario.block_on(async {
            let (data, outlet) = (scenario.path("data/agentls"), Box::new(log.clone()));
            let (store, writer) = Store::start_inline(data, outlet, options.disk_fault);
            let folder = Folder {
                name: "work".to_owned(),
                path: scenario.workspace(),
            };
            let workspace = WorkspaceShared::new(&[folder], Some(scenario.path("")));
            workspace.sandbox().assume_none();
            let (services, configured) = Services::assemble(ServiceParts {
                store,
                source: config_source(&scenario),
                workspace,
                editor: Arc::new(NoEditor),
                redactor: Redactor::default(),
                client_name: Arc::new(|| "test".to_owned()),
                attendance: Arc::new(move || {
                    if options.questions {
                        Attendance::Questions
                    } else {
                        Attendance::Approvals
                    }
                }),
            });
            let mut services = Arc::into_inner(services).expect("nobody else has them yet");
            services.tools = Arc::new(services.tools.with_tools(&options.tools));
            (services, configured, spawn(writer))
        });
        let (services, configured, writer) = started;
        Self {
            scenario,
            sessions: SessionManager::new(Arc::new(services)),
            configured,
            log,
            writer: Cell::new(Some(writer)),
        }
    }

    /// Ends the server as if its process were killed. No other server may run.
    pub(in crate::session::tests) fn kill(self) {
        let scenario = self.scenario.clone();
        assert_eq!(scenario.0.servers.get(), 1, "a crash ends all servers");
        // A killed process shuts nothing down.
        self.writer.take();
        drop(self);
        scenario.crash();
    }

    /// Runs a future, and everything else meanwhile. Panics with the latest events if nothing more can happen.
    pub(in crate::session::tests) fn wait_for<T>(&self, future: impl Future<Output = T>) -> T {
        let done = self
            .scenario
            .block_on(async { clock::timeout(WAIT_LIMIT, future).await });
        done.unwrap_or_else(|_| panic!("a wait never ends; the events:\n{}", self.log.describe()))
    }

    // Sessions and turns.

    /// Creates a session in the workspace folder.
    pub(in crate::session::tests) fn session(&self) -> SessionId {
        self.session_with(NewSession::default())
    }

    /// Creates a session with this model.
    pub(in crate::session::tests) fn session_of_model(&self, model: &str) -> SessionId {
        self.session_with(NewSession {
            choice: ContentChoice {
                model: Some(model.to_owned()),
                ..ContentChoice::default()
            },
            ..NewSession::default()
        })
    }

    /// Creates a session of an agent.
    pub(in crate::session::tests) fn session_of_agent(&self, agent: &str) -> SessionId {
        self.session_with(NewSession {
            agent: Some(agent.to_owned()),
            ..NewSession::default()
        })
    }

    /// Creates a session in this mode.
    pub(in crate::session::tests) fn session_in_mode(&self, mode: Mode) -> SessionId {
        self.session_with(NewSession {
            choice: ContentChoice {
                mode: Some(mode),
                ..ContentChoice::default()
            },
            ..NewSession::default()
        })
    }

    /// Creates a session. Its folder is the workspace folder if `wanted` names none.
    pub(in crate::session::tests) fn session_with(&self, wanted: NewSession) -> SessionId {
        self.try_session(wanted).unwrap().id
    }

    /// Creates a session, or says why not.
    pub(in crate::session::tests) fn try_session(
        &self,
        mut wanted: NewSession,
    ) -> Result<CreatedSession, NewSessionError> {
        if wanted.folder.as_os_str().is_empty() {
            wanted.folder = self.scenario.workspace();
        }
        if wanted.cwd.as_os_str().is_empty() {
            wanted.cwd = wanted.folder.clone();
        }
        self.wait_for(self.sessions.open_new_session(&self.configured, wanted))
    }

    /// Sends a command and waits for its answer.
    pub(in crate::session::tests) fn request<T>(
        &self,
        session: &SessionId,
        command: impl FnOnce(oneshot::Sender<Result<T, CommandError>>) -> SessionCommand,
    ) -> Result<T, CommandError> {
        self.wait_for(self.sessions.send_request(session, command))
    }

    fn post_turn(
        &self,
        session: &SessionId,
        command: impl FnOnce(oneshot::Sender<Result<TurnHandle, CommandError>>) -> SessionCommand,
    ) -> PendingTurn {
        let (reply, started) = oneshot::channel();
        let command = command(reply);
        let posted = async { self.sessions.post_command(session, command) };
        self.scenario.block_on(posted).unwrap();
        PendingTurn(started)
    }

    /// Sends a prompt.
    pub(in crate::session::tests) fn prompt(
        &self,
        session: &SessionId,
        text: impl Into<String>,
    ) -> PendingTurn {
        self.prompt_blocks(session, vec![Block::Text(text.into())])
    }

    /// Sends a prompt of any blocks.
    pub(in crate::session::tests) fn prompt_blocks(
        &self,
        session: &SessionId,
        content: Vec<Block>,
    ) -> PendingTurn {
        self.post_turn(session, |reply| SessionCommand::Prompt {
            content,
            canceled: CancellationToken::new(),
            reply,
        })
    }

    /// Continues the last turn.
    pub(in crate::session::tests) fn resume(&self, session: &SessionId) -> PendingTurn {
        self.post_turn(session, |reply| SessionCommand::Resume { reply })
    }

    /// Compacts the history by hand.
    pub(in crate::session::tests) fn compact(&self, session: &SessionId) -> PendingTurn {
        self.post_turn(session, |reply| SessionCommand::Compact {
            instructions: None,
            reply,
        })
    }

    /// Waits until a turn has started.
    pub(in crate::session::tests) fn started(&self, turn: PendingTurn) -> Result<TurnHandle, CommandError> {
        self.wait_for(turn.0).expect("the session answers")
    }

    /// Waits until a turn has ended.
    pub(in crate::session::tests) fn outcome(&self, turn: PendingTurn) -> TurnOutcome {
        let handle = self.started(turn).unwrap();
        self.wait_for(handle.wait_for_outcome())
            .expect("the session lives")
    }

    /// Sends a prompt and waits until its turn has ended.
    pub(in crate::session::tests) fn ask(&self, session: &SessionId, text: impl Into<String>) -> TurnOutcome {
        self.outcome(self.prompt(session, text))
    }

    /// Cancels the running turn.
    pub(in crate::session::tests) fn cancel(&self, session: &SessionId) {
        self.sessions.cancel_turn(session, None);
    }

    /// Adds a message to the running turn.
    pub(in crate::session::tests) fn steer(
        &self,
        session: &SessionId,
        text: &str,
    ) -> Result<TurnId, CommandError> {
        self.request(session, |reply| SessionCommand::Steer {
            content: vec![Block::Text(text.to_owned())],
            expected: None,
            canceled: CancellationToken::new(),
            reply,
        })
    }

    /// Reads or changes the queue of prompts.
    pub(in crate::session::tests) fn queue(
        &self,
        session: &SessionId,
        action: QueueAction,
    ) -> Result<QueueReply, CommandError> {
        self.request(session, |reply| SessionCommand::Queue {
            action,
            canceled: CancellationToken::new(),
            reply,
        })
    }

    /// Adds a prompt to the queue.
    pub(in crate::session::tests) fn enqueue(&self, session: &SessionId, text: &str) -> QueueReply {
        let content = vec![Block::Text(text.to_owned())];
        self.queue(session, QueueAction::Add(content)).unwrap()
    }

    /// Shows a session to the client, after a restart for example.
    pub(in crate::session::tests) fn load(&self, session: &SessionId) -> LoadReply {
        let load = |reply| SessionCommand::Load {
            read_only: false,
            reply,
        };
        self.request(session, load).unwrap()
    }

    /// Returns the session's state.
    pub(in crate::session::tests) fn inspect(&self, session: &SessionId) -> SessionSnapshot {
        self.request(session, |reply| SessionCommand::Inspect { reply })
            .unwrap()
    }

    /// Changes the mode.
    pub(in crate::session::tests) fn set_mode(&self, session: &SessionId, mode: Mode) {
        self.request(session, |reply| SessionCommand::SetMode { mode, reply })
            .unwrap();
    }

    /// Changes the model for future turns.
    pub(in crate::session::tests) fn set_model(
        &self,
        session: &SessionId,
        model: &str,
    ) -> Result<(), CommandError> {
        let model = Some(model.to_owned());
        self.wait_for(self.sessions.choose_model(&self.configured, session, model, None))
    }

    /// Changes the reasoning effort for future turns.
    pub(in crate::session::tests) fn set_effort(&self, session: &SessionId, effort: Effort) {
        let effort = Some(EffortChoice::Chosen(effort));
        let chosen = self
            .sessions
            .choose_model(&self.configured, session, None, effort);
        self.wait_for(chosen).unwrap();
    }

    /// Reads the configuration again. Returns its problems.
    pub(in crate::session::tests) fn reload_config(&self) -> Vec<Diagnostic> {
        self.configured.reload_config(&[self.scenario.workspace()])
    }

    /// Ends all sessions, as at the end of a server. The turns that it interrupts can still be awaited.
    pub(in crate::session::tests) fn shut_down(&self) {
        self.wait_for(self.sessions.shut_down());
    }

    /// Waits until every session has performed its commands, and what they recorded has arrived. Turns go on.
    pub(in crate::session::tests) fn settle(&self) {
        let nothing = serde_json::json!({});
        self.wait_for(self.sessions.answer_test_request("$/test/settled", &nothing));
    }

    // Events.

    /// Waits for the next event of a session that `pick` takes. Each kind of event has its own position, so that
    /// events of different kinds can be awaited in any order.
    pub(in crate::session::tests) fn next<T>(
        &self,
        session: &SessionId,
        mut pick: impl FnMut(&Event) -> Option<T>,
    ) -> T {
        self.next_logged(session, |logged| pick(&logged.event))
    }

    /// Does the same with the address of the event.
    pub(in crate::session::tests) fn next_logged<T>(
        &self,
        session: &SessionId,
        mut pick: impl FnMut(&LoggedEvent) -> Option<T>,
    ) -> T {
        self.wait_for(async {
            loop {
                let found = self.log.lock().take_next(session, &mut pick);
                match found {
                    Some(found) => return found,
                    None => self.log.wait_for_more().await,
                }
            }
        })
    }

    /// Waits for the next event of a session for which `is` holds.
    pub(in crate::session::tests) fn wait_until(&self, session: &SessionId, is: impl Fn(&Event) -> bool) {
        self.next(session, |event| is(event).then_some(()));
    }

    /// Waits for the next delta of a session that `pick` takes.
    pub(in crate::session::tests) fn next_delta<T>(
        &self,
        session: &SessionId,
        mut pick: impl FnMut(&Delta) -> Option<T>,
    ) -> T {
        self.wait_for(async {
            loop {
                let found = self.log.lock().take_next_delta(session, &mut pick);
                match found {
                    Some(found) => return found,
                    None => self.log.wait_for_more().await,
                }
            }
        })
    }

    /// Waits for the next delta of a message's text.
    pub(in crate::session::tests) fn next_text(&self, session: &SessionId) -> String {
        self.next_delta(session, |delta| match delta {
            Delta::Text { text, .. } => Some(text.clone()),
            _ => None,
        })
    }

    /// Waits for a delta of a message's text that ends like this.
    pub(in crate::session::tests) fn wait_for_text(&self, session: &SessionId, end: &str) {
        while !self.next_text(session).ends_with(end) {}
    }

    /// Waits for the next tool call of a session that has this status.
    pub(in crate::session::tests) fn next_call(
        &self,
        session: &SessionId,
        status: ToolCallStatus,
    ) -> ToolCallUpdate {
        self.next(session, |event| match event {
            Event::ToolCall(update) if update.status == status => Some(update.clone()),
            _ => None,
        })
    }

    /// Returns what `pick` takes of a session's events so far.
    pub(in crate::session::tests) fn all<T>(
        &self,
        session: &SessionId,
        mut pick: impl FnMut(&Event) -> Option<T>,
    ) -> Vec<T> {
        let entries = self.log.lock();
        let own = entries.events.iter().filter(|logged| logged.session == *session);
        own.filter_map(|logged| pick(&logged.event)).collect()
    }

    /// Returns for how many of a session's events so far `is` holds.
    pub(in crate::session::tests) fn count(&self, session: &SessionId, is: impl Fn(&Event) -> bool) -> usize {
        self.all(session, |event| is(event).then_some(())).len()
    }

    /// Returns a session's events so far, with their addresses.
    pub(in crate::session::tests) fn events(&self, session: &SessionId) -> Vec<LoggedEvent> {
        let entries = self.log.lock();
        let own = entries.events.iter().filter(|logged| logged.session == *session);
        own.cloned().collect()
    }

    /// Reads a session's events from the store.
    pub(in crate::session::tests) fn stored_events(&self, session: &SessionId) -> Vec<Event> {
        self.settle();
        self.wait_for(async {
            let mut pages = self.sessions.services().store.reader.walk_events(session, 0);
            let mut events = Vec::new();
            while let Some(page) = pages.next().await.unwrap() {
                events.extend(page.events.into_iter().map(|stored| stored.event));
            }
            events
        })
    }

    /// Returns a session's deltas so far.
    pub(in crate::session::tests) fn deltas(&self, session: &SessionId) -> Vec<Delta> {
        let entries = self.log.lock();
        let own = entries.deltas.iter().filter(|(of, _)| of == session);
        own.map(|(_, delta)| delta.clone()).collect()
    }

    /// Returns the reasons of a session's transitions so far.
    pub(in crate::session::tests) fn reasons(&self, session: &SessionId) -> Vec<&'static str> {
        self.all(session, |event| match event {
            Event::Transition { transition, .. } => Some(transition.reason_name()),
            _ => None,
        })
    }

    /// Returns the reasons of a session's transitions, then reason, state and error code of a turn's end.
    pub(in crate::session::tests) fn course(
        &self,
        session: &SessionId,
        outcome: &TurnOutcome,
    ) -> Vec<String> {
        let end = &outcome.end;
        let code = end.error.as_ref().map_or("no error", |error| error.code.name());
        let last = format!("{} / {} / {code}", end.reason.name(), end.state.name());
        let reasons = self.reasons(session).into_iter().map(str::to_owned);
        reasons.chain([last]).collect()
    }

    /// Returns the announced delays of a session's retries so far, in ms.
    pub(in crate::session::tests) fn retry_delays(&self, session: &SessionId) -> Vec<u64> {
        self.all(session, |event| match event {
            Event::Retry { delay_ms, .. } => Some(*delay_ms),
            _ => None,
        })
    }

    /// Returns the messages of a session's warnings with this code.
    pub(in crate::session::tests) fn warnings(&self, session: &SessionId, code: &str) -> Vec<String> {
        self.all(session, |event| match event {
            Event::Warning { code: of, message } if of == code => Some(message.clone()),
            _ => None,
        })
    }

    /// Returns the messages of a session's warnings that contain a text.
    pub(in crate::session::tests) fn warnings_with(&self, session: &SessionId, text: &str) -> Vec<String> {
        self.all(session, |event| match event {
            Event::Warning { message, .. } if message.contains(text) => Some(message.clone()),
            _ => None,
        })
    }

    /// Returns the server-wide warnings so far: code and message.
    pub(in crate::session::tests) fn server_warnings(&self) -> Vec<(String, String)> {
        self.log.lock().warnings.clone()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let servers = &self.scenario.0.servers;
        servers.set(servers.get() - 1);
        let Some(writer) = self.writer.take() else {
            return;
        };
        // A failed test must not fail twice, nor wait.
        if std::thread::panicking() {
            return;
        }
        self.wait_for(async {
            self.sessions.shut_down().await;
            self.configured.mcp().shut_down().await;
            // The writer ends with the last handle, which this client still has.
            let _ = self.sessions.services().store.writes.flush_writes().await;
        });
        drop(writer);
    }
}

fn config_source(scenario: &Scenario) -> ConfigSource {
    let config_dir = scenario.path("config/agentls");
    ConfigSource {
        env: Env::from_vars([("HOME", scenario.path(""))]),
        places: Some(ConfigPaths {
            config_file: config_dir.join("config.toml"),
            config_named: false,
            config_dir,
            data_dir: scenario.path("data/agentls"),
            state_dir: scenario.path("state"),
        }),
        flags: Flags::default(),
        options: None,
        editor: None,
        tools: Vec::new(),
    }
}
