//! `agentls doctor`: what is configured, whether it works, and what to do where it does not.
//!
//! Keys are told by the names of their variables, never by their values.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::chat::short_path;
use super::client::{Client, ClientError, Launch};
use super::config::{files, held_by_trust, is_error};
use super::doctor_models::{self, Finding, Severity};
use super::screen::Screen;
use super::style::Ink;
use crate::base::clock;
use crate::config::{
    ConfigSource, DefaultChoice, KEY_VARIABLES, Loaded, ProviderKind, Settings, Trust, select_default,
};
use crate::protocol::table::method;
use crate::protocol::{ListSessionsParams, ListSessionsResult};
use crate::provider::models::today;
use crate::provider::{self, ModelList, ProviderSpec, Reached};

/// How long a provider may take to answer.
const REACH: Duration = Duration::from_secs(10);
/// How long a local Ollama may take, as at a first prompt.
const PROBE: Duration = Duration::from_millis(300);
/// Columns of the names on the left.
const NAMES: usize = 14;

const WAYS: &str = "set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY; or start Ollama with a model \
(`ollama pull qwen3`); or see it at work without any: `agentls demo`";

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ok,
    /// It is as it is.
    Info,
    Warn,
    Fail,
}

/// Looks at everything; the exit code: 1 when something fails.
pub(super) async fn doctor(
    offline: bool,
    source: &ConfigSource,
    trust: &Trust,
    launch: &Launch,
    screen: Screen,
) -> i32 {
    let mut doctor = Doctor {
        screen,
        source,
        home: source.env.home().map(Path::to_path_buf),
        failed: 0,
        warned: false,
    };
    let version = concat!("agentls ", env!("CARGO_PKG_VERSION"));
    let painter = doctor.screen.painter;
    doctor.screen.line(&painter.paint(Ink::Bold, version));
    doctor.screen.gap();
    doctor.program();
    let loaded = source.load(Some(&launch.folder), trust);
    doctor.configuration(&loaded, trust, &launch.folder);
    doctor.keys(&loaded.settings);
    doctor.provider(&loaded.settings, offline).await;
    doctor.server(launch).await;
    doctor.places(&loaded.settings);
    doctor.editors();
    doctor.screen.gap();
    let verdict = match doctor.failed {
        1 => painter.paint(Ink::Red, "1 problem: follow the → hint."),
        2.. => {
            let verdict = format!("{} problems: follow the → hints.", doctor.failed);
            painter.paint(Ink::Red, &verdict)
        }
        0 if doctor.warned => painter.paint(Ink::Yellow, "Everything needed works; see the ! lines."),
        0 => painter.paint(Ink::Green, "Everything works."),
    };
    doctor.screen.line(&verdict);
    i32::from(doctor.failed > 0)
}

struct Doctor<'a> {
    screen: Screen,
    source: &'a ConfigSource,
    home: Option<PathBuf>,
    failed: usize,
    warned: bool,
}

impl Doctor<'_> {
    fn tell(&mut self, state: State, name: &str, finding: &str, todo: Option<&str>) {
        let painter = self.screen.painter;
        let mark = match state {
            State::Ok => painter.paint(Ink::Green, "✓"),
            State::Info => painter.dim("·"),
            State::Warn => painter.paint(Ink::BoldYellow, "!"),
            State::Fail => painter.paint(Ink::BoldRed, "✗"),
        };
        self.failed += usize::from(state == State::Fail);
        self.warned |= state == State::Warn;
        self.screen.status("");
        self.screen
            .entry(&format!("{mark} {name:<NAMES$} "), NAMES + 3, finding);
        if let Some(todo) = todo {
            let blank = " ".repeat(NAMES + 3);
            self.screen.entry(&format!("{blank}→ "), NAMES + 5, todo);
        }
    }

    fn path(&self, path: &Path) -> String {
        short_path(path, self.home.as_deref())
    }

    fn program(&mut self) {
        let path = std::env::current_exe()
            .map(|path| self.path(&path))
            .unwrap_or_default();
        let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
        self.tell(State::Info, "program", &format!("{path} ({platform})"), None);
    }

    fn configuration(&mut self, loaded: &Loaded, trust: &Trust, folder: &Path) {
        let read = files(self.source, folder);
        let named = match read.as_slice() {
            [] => "no file; the defaults hold".to_owned(),
            read => read
                .iter()
                .map(|file| self.path(Path::new(file)))
                .collect::<Vec<_>>()
                .join(", "),
        };
        let problems = &loaded.diagnostics;
        let first = problems
            .iter()
            .find(|problem| is_error(problem))
            .or(problems.first());
        let state = match first {
            None => State::Ok,
            Some(problem) if is_error(problem) => State::Fail,
            Some(_) => State::Warn,
        };
        let todo = first.map(|problem| match problems.len() {
            1 => problem.to_string(),
            count => format!(
                "{problem}\nand {} more; `agentls config check` tells all",
                count - 1
            ),
        });
        self.tell(state, "configuration", &named, todo.as_deref());
        if let Some(held) = held_by_trust(self.source, trust, folder) {
            self.tell(
                State::Info,
                "trust",
                &format!("not trusted: this folder {held}"),
                Some("/trust in a chat lists all of it and asks"),
            );
        }
    }

    fn keys(&mut self, settings: &Settings) {
        let env = &self.source.env;
        let set: Vec<&str> = KEY_VARIABLES
            .into_iter()
            .filter(|name| env.non_empty(name).is_some())
            .collect();
        let found = match set.as_slice() {
            [] => "none in the environment".to_owned(),
            set => format!("in the environment: {}", set.join(", ")),
        };
        self.tell(State::Info, "keys", &found, None);
        let withheld: Vec<String> = settings
            .secret_env_names(env)
            .into_iter()
            .filter(|name| env.non_empty(name).is_some() && name.chars().all(|c| c.is_ascii_graphic()))
            .collect();
        if !withheld.is_empty() {
            self.tell(
                State::Info,
                "withheld",
                &format!("commands do not get {}", withheld.join(", ")),
                Some("[tool.bash] pass_env = [\"NAME\"] in your own configuration passes a variable on"),
            );
        }
    }

    async fn provider(&mut self, settings: &Settings, offline: bool) {
        let (name, model, why) =
            match select_default(settings, &self.source.env, &doctor_models::default_model) {
                DefaultChoice::Configured { provider, model } => (provider, model, None),
                DefaultChoice::ByKey { provider, model, why } => (provider, Some(model), Some(why)),
                DefaultChoice::ProbeOllama { .. } => return self.ollama(settings, offline).await,
                DefaultChoice::NotConfigured { why } => {
                    return self.tell(State::Fail, "provider", &why, Some(WAYS));
                }
            };
        let Some(chosen) = settings.providers.get(&name) else {
            return self.tell(
                State::Fail,
                "provider",
                &format!("`{name}` is not configured"),
                Some(WAYS),
            );
        };
        let label = match (why, &model) {
            (Some(why), _) => why,
            (None, Some(model)) => format!("{name}, model {model}"),
            (None, None) => format!("{name}, whatever model it has"),
        };
        if chosen.needs_key && chosen.api_key.is_none() {
            let todo = format!("set [provider.{name}] api_key, best as \"${{NAME_OF_A_VARIABLE}}\"");
            return self.tell(
                State::Fail,
                "provider",
                &format!("{label}: its key is missing"),
                Some(&todo),
            );
        }
        if chosen.kind == ProviderKind::Script {
            return self.tell(
                State::Ok,
                "provider",
                &format!("{label}, played from a cassette"),
                None,
            );
        }
        self.tell(State::Ok, "provider", &label, None);
        let spec = provider::spec(settings, chosen);
        if let Some(model) = &model {
            self.tell_findings(doctor_models::findings_offline(&spec, model, today()));
        }
        if offline {
            return self.tell(State::Info, "reachable", "not asked (--offline)", None);
        }
        self.reach(&spec, model.as_deref()).await;
    }

    fn tell_findings(&mut self, findings: Vec<Finding>) {
        for finding in findings {
            let state = match finding.severity {
                Severity::Ok => State::Ok,
                Severity::Info => State::Info,
                Severity::Warning => State::Warn,
                Severity::Problem => State::Fail,
            };
            self.tell(state, finding.name, &finding.text, finding.todo.as_deref());
        }
    }

    async fn reach(&mut self, chosen: &ProviderSpec, model: Option<&str>) {
        self.screen.status(&format!("asking {} …", chosen.name));
        let start = clock::now();
        let reached = provider::reach(chosen, REACH).await;
        let took = clock::now().saturating_duration_since(start).as_millis();
        match reached {
            Ok(Reached::Models(list)) => {
                let count = list.names.len();
                let found = format!("{} answered in {took} ms and lists {count} models", chosen.name);
                self.tell(State::Ok, "reachable", &found, None);
                self.tell_list(chosen, model, Some(&list));
            }
            Ok(Reached::Key) => {
                let found = format!("{} answered in {took} ms and takes the key", chosen.name);
                self.tell(State::Ok, "reachable", &found, None);
                let list = provider::fetch_list(chosen, REACH).await;
                self.tell_list(chosen, model, list.ok().flatten().as_ref());
            }
            Ok(Reached::Address) => {
                let found = format!(
                    "{} answered in {took} ms; it lists no models, so its key was not tried",
                    chosen.name
                );
                self.tell(State::Ok, "reachable", &found, None);
            }
            Err(error) => {
                let todo = error.user_action.clone();
                self.tell(State::Fail, "reachable", &error.to_string(), todo.as_deref());
            }
        }
    }

    fn tell_list(&mut self, chosen: &ProviderSpec, model: Option<&str>, list: Option<&ModelList>) {
        if let (Some(model), Some(list)) = (model, list) {
            let finding = doctor_models::finding_of_list(chosen, model, list, today());
            self.tell_findings(vec![finding]);
        }
    }

    async fn ollama(&mut self, settings: &Settings, offline: bool) {
        let ollama = settings.providers.get("ollama").filter(|_| !offline);
        let models = match ollama {
            Some(ollama) => provider::list_models("ollama", &ollama.base_url, PROBE).await,
            None => None,
        };
        match models.as_deref() {
            Some([first, ..]) => {
                self.tell(
                    State::Ok,
                    "provider",
                    &format!("a local Ollama is running; it has {first}"),
                    None,
                );
            }
            Some([]) => self.tell(
                State::Fail,
                "provider",
                "a local Ollama is running and has no model",
                Some("ollama pull qwen3"),
            ),
            None if offline => self.tell(
                State::Warn,
                "provider",
                "none is configured and no key is in the environment; a local Ollama was not looked for (--offline)",
                Some(WAYS),
            ),
            None => self.tell(
                State::Fail,
                "provider",
                "none is configured, no key is in the environment, and no local Ollama answers",
                Some(WAYS),
            ),
        }
    }

    /// Starts a server as an editor would, and has it open its store.
    async fn server(&mut self, launch: &Launch) {
        self.screen.status("starting a server …");
        let start = clock::now();
        let mut client = match Client::start(launch).await {
            Ok(client) => client,
            Err(error) => return self.tell(State::Fail, "server", &error.to_string(), None),
        };
        let took = clock::now().saturating_duration_since(start).as_millis();
        self.tell(
            State::Ok,
            "server",
            &format!("starts and shakes hands in {took} ms"),
            None,
        );
        let params = ListSessionsParams {
            limit: Some(200),
            ..ListSessionsParams::default()
        };
        let listed: Result<ListSessionsResult, ClientError> =
            client.request(method::LIST_SESSIONS, &params).await;
        let data = self
            .source
            .places
            .as_ref()
            .map(|places| self.path(&places.data_dir))
            .unwrap_or_default();
        match listed {
            Ok(listed) => {
                let more = if listed.next_cursor.is_some() {
                    "more than "
                } else {
                    ""
                };
                let count = listed.sessions.len();
                let plural = if count == 1 { "" } else { "s" };
                self.tell(
                    State::Ok,
                    "store",
                    &format!("{data}: {more}{count} session{plural}"),
                    None,
                );
            }
            Err(error) => {
                let todo = format!("is {data} yours and writable, and is there room on its disk?");
                self.tell(State::Fail, "store", &error.to_string(), Some(&todo));
            }
        }
        client.close().await;
    }

    fn places(&mut self, settings: &Settings) {
        let usual = self.source.places.as_ref().map(|places| places.log_file());
        let log = settings.logging.file.clone().or(usual);
        let log = log.map(|log| self.path(&log)).unwrap_or_default();
        self.tell(
            State::Info,
            "log",
            &format!("{log} (level {})", settings.logging.level.name()),
            None,
        );
    }

    fn editors(&mut self) {
        for (program, name, about) in [
            ("nvim", "Neovim", "its vim.lsp can start `agentls`"),
            (
                "code",
                "VS Code",
                "an extension with vscode-languageclient can start `agentls`",
            ),
        ] {
            match self.on_path(program) {
                Some(path) => self.tell(State::Ok, name, &format!("{}: {about}", self.path(&path)), None),
                None => self.tell(State::Info, name, "not on the PATH", None),
            }
        }
    }

    fn on_path(&self, program: &str) -> Option<PathBuf> {
        let path = self.source.env.get("PATH")?;
        std::env::split_paths(path)
            .map(|dir| dir.join(program))
            .find(|file| file.is_file())
    }
}
