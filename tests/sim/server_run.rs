//! One run of a simulated server: from the opening of its store to its shutdown or crash.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::acp_client;
use super::check::ReloadedSession;
use super::hooks::build_hooks;
use super::mcp::{self, SimConnector};
use super::model::{LONGEST_TURN, SimModels};
use super::outlet::{CrashPoints, SimClient, Unread, disk_faults};
use super::replies;
use super::tools;
use super::user::{self, ClientWindow};
use super::world::{OTHER_AGENT, OTHER_AGENT_MODE, World};
use agentls::acp::AcpEvents;
use agentls::base::backpressure::ByteBudget;
use agentls::base::counters::Totals;
use agentls::base::sim_schedule::{self, YieldRate};
use agentls::base::spawn::{AbortOnDrop, spawn};
use agentls::base::{clock, random};
use agentls::config::SandboxSettings;
use agentls::domain::{Attendance, Mode, SessionId};
use agentls::mcp::McpManager;
use agentls::provider::{Accounts, CallSlots};
use agentls::session::{
    Rules, Services, SessionInfo, SessionManager, SessionSettings, SettingsSource, SubagentModel,
    build_ledger,
};
use agentls::store::{SessionQuery, Store, StoreReader};
use agentls::tool::Tool;
use agentls::tool::delegate::Delegate;
use agentls::turn::{ContextPolicy, ModelChoice, TurnLimits, TurnSettings};
use agentls::workspace::{OnCancel, Workspace, WorkspaceShared};

/// The shared parts of a server run.
pub(super) struct ServerRun {
    pub(super) world: Arc<World>,
    pub(super) sessions: SessionManager,
    pub(super) unread: Unread,
    /// The number of running deletions and closings; meanwhile, commands may remain unanswered.
    deletes: AtomicU32,
    pub(super) mcp: Arc<McpManager>,
    /// The number of running reverts, and of those started since none was running.
    reverts: Mutex<(u32, u32)>,
}

/// The seed of a server run, its number of turns, and how it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunEnd {
    pub(super) seed: u64,
    pub(super) turns: u64,
    pub(super) freeze_at: u64,
    pub(super) crash: CrashPoints,
    /// The server shuts down after this time, even if turns are running.
    pub(super) ends_after: Option<Duration>,
}

impl ServerRun {
    /// Compares the stored events of a new fork with those of its parent.
    pub(super) async fn check_fork(&self, session: &SessionId, fork: &SessionId) {
        let reader = &self.sessions.services().store.reader;
        let mut events = Vec::new();
        let mut pages = reader.walk_events(fork, 0);
        while let Ok(Some(page)) = pages.next().await {
            events.extend(page.events);
        }
        let found = reader.read_session(fork).await.ok().flatten();
        let found = found.map(|row| (row, events));
        self.world
            .lock_checker()
            .check_fork(&self.world.files, session, fork, found);
    }

    /// Returns whether a deletion is running, or its check afterwards, or a closing.
    pub(super) fn is_deleting(&self) -> bool {
        self.deletes.load(Ordering::Relaxed) > 0
    }

    /// Starts a revert; returns whether no other one is running.
    pub(super) fn revert_begins(&self) -> bool {
        let mut reverts = self.reverts.lock().unwrap_or_else(PoisonError::into_inner);
        *reverts = (reverts.0 + 1, reverts.1 + 1);
        reverts.0 == 1
    }

    /// Ends a revert; returns whether no other one overlapped with it.
    pub(super) fn revert_ends(&self) -> bool {
        let mut reverts = self.reverts.lock().unwrap_or_else(PoisonError::into_inner);
        let alone = *reverts == (1, 1);
        reverts.0 -= 1;
        if reverts.0 == 0 {
            reverts.1 = 0;
        }
        alone
    }

    pub(super) fn delete_begins(&self) {
        self.deletes.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn delete_ends(&self) {
        self.deletes.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs the server; returns whether it shut down in order, and the virtual time at which the next run starts.
///
/// # Errors
/// The runtime cannot be started.
pub(super) fn run_server(
    world: &Arc<World>,
    data: &Path,
    wall_ms: i64,
    run_end: RunEnd,
) -> std::io::Result<(bool, i64)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let settings = &world.settings;
    let yield_rate = YieldRate {
        yields: settings.yields,
        small_batches: settings.small_batches,
        memory: settings.memory,
        freeze_at: run_end.freeze_at,
    };
    let shut_down = runtime.block_on(async {
        clock::set_virtual(wall_ms);
        random::seed_thread(run_end.seed);
        sim_schedule::begin_schedule(run_end.seed, yield_rate);
        world
            .lock_checker()
            .log_line(format!("a server run begins: {run_end:?}"));
        let server = run_until_end(world.clone(), data.to_path_buf(), run_end);
        tokio::select! { biased;
            () = sim_schedule::wait_until_frozen() => false,
            () = agentls::base::clock::sleep(LONGEST_TURN * 20) => {
                world.lock_checker().record_violation("I13: the world makes no progress".to_owned());
                false
            }
            () = server => true,
        }
    });
    let now = runtime.block_on(async { clock::wall_ms() });
    sim_schedule::freeze_tasks();
    drop(runtime);
    sim_schedule::end_schedule();
    Ok((shut_down, now + crate::simulation::RESTART_PAUSE_MS))
}

async fn run_until_end(world: Arc<World>, data: PathBuf, run_end: RunEnd) {
    let unread = Unread::default();
    let reader_slot: Arc<Mutex<Option<StoreReader>>> = Arc::default();
    let acp_events = world.settings.has_acp_client.then(AcpEvents::new);
    world.lock_checker().forget_acp_client();
    let client = SimClient {
        world: world.clone(),
        acp: acp_events.as_ref().map(AcpEvents::sink),
        unread: unread.clone(),
        crash: run_end.crash.event,
        reader: reader_slot.clone(),
    };
    let faults = disk_faults(world.clone(), run_end.crash.commit);
    let (store, writer) = Store::start_inline(data, Box::new(client), Some(faults));
    let reader = store.reader.clone();
    let found = read_all_sessions(&reader).await;
    world.lock_checker().check_restart(&world.files, found);
    if let Ok(mut reader_slot) = reader_slot.lock() {
        *reader_slot = Some(reader.clone());
    }
    let writer = spawn(writer);
    world.lock_checker().forget_mcp_connections();
    let mcp = McpManager::with_connector(
        WorkspaceShared::new(&[], None),
        Arc::new(SimConnector(world.clone())),
    );
    let services = build_services(&world, store, &mcp);
    let server = Arc::new(ServerRun {
        world: world.clone(),
        sessions: SessionManager::new(Arc::new(services)),
        unread,
        deletes: AtomicU32::new(0),
        reverts: Mutex::default(),
        mcp,
    });
    let acp_client = acp_events.map(|events| acp_client::start_client(&server, events));
    let (windows, reading) = open_windows(&server).await;
    world.grant_tickets(run_end.turns);
    let users: Vec<AbortOnDrop<()>> = windows
        .iter()
        .flat_map(|window| {
            [
                spawn(user::interfere_at_random(window.clone())),
                spawn(user::answer_approvals(window.clone())),
                spawn(replies::answer_inquiries(window.clone())),
                spawn(user::name_mcp_servers(window.clone())),
            ]
        })
        .collect();
    let mut prompting: Vec<AbortOnDrop<()>> = windows
        .iter()
        .map(|window| spawn(user::keep_prompting(window.clone())))
        .collect();
    let done = async {
        for task in &mut prompting {
            // The panic hook has already recorded a panic of the task.
            let _ = task.await;
        }
        user::wait_until_quiet(&server).await;
    };
    match run_end.ends_after {
        None => done.await,
        // The shutdown interrupts everything that still runs.
        Some(after) => {
            tokio::select! { biased;
                () = agentls::base::clock::sleep(after) => {}
                () = done => {}
            }
        }
    }
    if run_end.ends_after.is_none()
        && server
            .sessions
            .services()
            .store
            .writes
            .flush_writes()
            .await
            .is_ok()
    {
        let found = read_all_sessions(&reader).await;
        // Users continue to act, so the comparison must follow the read without a pause.
        world.lock_checker().compare_with_store(&found);
    }
    if let Some((client, _)) = &acp_client
        && run_end.ends_after.is_none()
    {
        client.check_is_quiet();
    }
    // Keep the users until the end, because pending commands wait for their answers.
    let acp_tasks = acp_client.into_iter().flat_map(|(_, tasks)| tasks);
    let users = users.into_iter().chain(prompting).chain(acp_tasks).collect();
    shut_down(&world, server, (users, reading), windows, writer).await;
}

/// Shuts the server down, and checks that it ends in time, ends all turns and closes its store.
async fn shut_down(
    world: &World,
    server: Arc<ServerRun>,
    tasks: (Vec<AbortOnDrop<()>>, AbortOnDrop<()>),
    windows: Vec<Arc<ClientWindow>>,
    writer: AbortOnDrop<()>,
) {
    world.lock_checker().log_line("the server shuts down".to_owned());
    world.lock_checker().begin_shutdown();
    let began = clock::wall_ms();
    server.sessions.shut_down().await;
    let took = clock::wall_ms() - began;
    if took > 12_500 {
        world
            .lock_checker()
            .record_violation(format!("R-CANCEL: the shutdown took {took} ms"));
    }
    if server.sessions.live_session_count() > 0 {
        world
            .lock_checker()
            .record_violation("sessions are still live after the shutdown".to_owned());
    }
    drop((tasks, windows));
    server.mcp.shut_down().await;
    world.lock_checker().check_mcp_ended();
    let running = world.lock_checker().running_turns();
    let is_durable = !world.lock_checker().is_degraded();
    if is_durable && !running.is_empty() {
        world
            .lock_checker()
            .record_violation(format!("I3: {running:?} have no end after the shutdown"));
    }
    drop(server);
    if agentls::base::clock::timeout(Duration::from_secs(60), writer)
        .await
        .is_err()
    {
        world
            .lock_checker()
            .record_violation("the store's writer does not end".to_owned());
    }
}

/// Loads every known session, which repairs the turns that a crash interrupted, and opens the windows.
async fn open_windows(server: &Arc<ServerRun>) -> (Vec<Arc<ClientWindow>>, AbortOnDrop<()>) {
    let reading = spawn(user::read_slowly(server.clone()));
    let known = server.world.lock_checker().session_ids();
    for session in &known {
        user::load_session(server, session, false).await;
        let turn = server.world.lock_checker().open_turn(session);
        if let Some(turn) = turn {
            server
                .world
                .lock_checker()
                .record_violation(format!("I3: {turn} has no end after its session was loaded"));
        }
    }
    let count = server.world.settings.sessions;
    let mut known = known.into_iter().rev();
    let windows = (0..count).map(|_| {
        Arc::new(ClientWindow {
            server_run: server.clone(),
            session: Mutex::new(known.next()),
        })
    });
    (windows.collect(), reading)
}

fn build_services(world: &Arc<World>, store: Store, mcp: &Arc<McpManager>) -> Services {
    Services {
        ledger: build_ledger(&store),
        store,
        profiles: Arc::new(SimProfiles(world.clone(), Arc::default(), mcp.clone())),
        slots: Arc::new(CallSlots::new(world.settings.slots)),
        tools: Arc::new(tools::build_registry(world)),
        editor: Arc::new(agentls::tool::NoEditor),
        redactor: agentls::config::Redactor::default(),
        totals: Arc::new(Totals::default()),
        pool: ByteBudget::new(world.settings.pool),
        client_name: Arc::new(|| "sim".to_owned()),
        attendance: {
            let attendance = if world.settings.questions {
                Attendance::Questions
            } else {
                Attendance::Approvals
            };
            Arc::new(move || attendance)
        },
        idle: world.settings.idle,
    }
}

struct SimProfiles(Arc<World>, Arc<Accounts>, Arc<McpManager>);

impl SettingsSource for SimProfiles {
    fn session_settings(&self, session: &SessionInfo) -> SessionSettings {
        SessionSettings {
            turn: TurnSettings {
                models: Arc::new(SimModels {
                    world: self.0.clone(),
                    session: session.id.clone(),
                    accounts: self.1.clone(),
                }),
                choice: ModelChoice::default(),
                prompt_source: "simulated".into(),
                limits: TurnLimits {
                    max_steps: self.0.settings.max_steps,
                    max_tool_calls: self.0.settings.max_tool_calls,
                    degrade: self.0.settings.degrade,
                    max_escalations: self.0.settings.max_escalations,
                    token_target: self.0.settings.token_target,
                    ..TurnLimits::default()
                },
                context: ContextPolicy {
                    auto_compact: self.0.settings.auto_compact,
                    compaction_model: self.0.settings.compaction_model.map(str::to_owned),
                    ..ContextPolicy::default()
                },
                tool_timeouts: {
                    let limit = self.0.settings.delegate_limit;
                    Arc::new(move |tool| limit.filter(|_| tool == Delegate::NAME))
                },
                tool_cooldowns: Arc::new(|_| Duration::from_secs(60)),
                // Nothing of a simulated command runs, so there is nothing to confine.
                sandbox: Arc::new(SandboxSettings {
                    enabled: false,
                    ..SandboxSettings::default()
                }),
                mode: Mode::default(),
                describes_environment: false,
                hooks: build_hooks(&self.0),
                policy: self.0.settings.policies.clone(),
            },
            mcp: self
                .2
                .open_session(&session.id, &session.folder, &mcp::folder_servers(&self.0)),
            own_tools: Default::default(),
            tools: Default::default(),
            subagent_model: SubagentModel::Inherited,
            names_max_steps: true,
            read_only: false,
            budgets: self.0.settings.budgets.clone(),
            wall_time: self.0.settings.wall_time,
            rules: Rules::default(),
            approval_timeout: self.0.settings.approval_timeout,
            on_cancel: OnCancel::default(),
        }
    }

    fn agent_names(&self, _session: &SessionInfo) -> Vec<String> {
        vec![OTHER_AGENT.to_owned()]
    }

    fn default_mode(&self, _folder: &Path, agent: Option<&str>) -> Mode {
        match agent {
            None => self.0.settings.mode,
            Some(_) => OTHER_AGENT_MODE,
        }
    }

    fn open_workspace(&self, _session: &SessionInfo) -> Arc<Workspace> {
        Arc::new(Workspace::new(WorkspaceShared::new(&[], None)))
    }
}

/// Reads all sessions of a store.
async fn read_all_sessions(reader: &StoreReader) -> BTreeMap<SessionId, ReloadedSession> {
    let mut all = BTreeMap::new();
    let query = SessionQuery {
        limit: 10_000,
        ..SessionQuery::default()
    };
    let sessions = reader.list_sessions(query).await.map(|page| page.sessions);
    for hit in sessions.unwrap_or_default() {
        let id = hit.session.id.clone();
        let mut events = Vec::new();
        let mut pages = reader.walk_events(&id, 0);
        while let Ok(Some(page)) = pages.next().await {
            events.extend(page.events);
        }
        let changes = reader.read_changes(&id).await;
        let pending = reader.read_pending(&id).await.map(|(pending, _)| pending);
        let found = ReloadedSession {
            row: hit.session,
            events,
            pending: pending.unwrap_or_default(),
            changes: changes
                .map(|changes| changes.into_iter().map(|(_, change)| change).collect())
                .unwrap_or_default(),
        };
        all.insert(id, found);
    }
    all
}
