//! `agentls doctor`: what is configured, whether it works, and how to fix what does not.
//!
//! Each check is a method that adds [`Check`]s with [`Doctor::report`]. `system` checks programs, folders and
//! keys; `doctor_models` judges the chosen model. Keys appear by the names of their variables, never by their values
//! (I15).

mod system;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::client::{ClientError, Launch, ServerClient};
use super::config::{describe_untrusted_settings, find_config_files, is_error};
use super::doctor_models::{self, Check, CheckState};
use super::mcp::McpCommands;
use super::models::PROVIDER_HINT;
use super::screen::{Screen, print_json};
use super::style::{Color, format_path};
use crate::base::clock;
use crate::config::{
    ApiKind, ConfigSource, DefaultChoice, LoadedConfig, Redactor, Settings, Trust, missing_key_hint,
};
use crate::protocol::table::method;
use crate::protocol::{ListSessionsParams, ListSessionsResult};
use crate::provider::models::current_day;
use crate::provider::{self, ModelList, ProbeResult, ProviderSpec};

/// The time limit for a provider's answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit for a local Ollama, the same as at a first prompt.
const PROBE: Duration = Duration::from_millis(300);
/// How many models are named of a list.
const NAMED: usize = 5;
/// The width of the left column, which shows the checks' names.
const NAMES: usize = 14;

/// Runs all checks. Returns the exit code: 1 if a check fails.
pub(super) async fn run_doctor(
    offline: bool,
    json: bool,
    source: &ConfigSource,
    trust: &Trust,
    launch: &Launch,
    screen: Screen,
) -> i32 {
    let styler = screen.styler;
    let mut doctor = Doctor {
        screen: if json {
            Screen::with_output(Box::new(std::io::sink()), false, || (81, 24), styler)
        } else {
            screen
        },
        source,
        home: source.env.home_dir().map(Path::to_path_buf),
        checks: Vec::new(),
    };
    let version = concat!("agentls ", env!("CARGO_PKG_VERSION"));
    doctor.screen.write_line(&styler.paint_text(Color::Bold, version));
    doctor.screen.write_gap();
    doctor.report_binary();
    doctor.check_programs(&launch.folder);
    let loaded = source.load_settings(Some(&launch.folder), trust);
    doctor.check_config(&loaded, trust, &launch.folder);
    let servers = McpCommands::load(source, trust, launch.folder.clone());
    servers
        .check_servers()
        .into_iter()
        .for_each(|check| doctor.report(check));
    doctor.check_sandbox(&loaded.settings, &launch.folder).await;
    doctor.check_keys(&loaded.settings);
    doctor.check_provider(&loaded.settings, offline).await;
    doctor.check_server(launch).await;
    doctor.check_folders();
    doctor.report_log(&loaded.settings);
    doctor.check_editors();
    doctor.report_verdict(json)
}

struct Doctor<'a> {
    screen: Screen,
    source: &'a ConfigSource,
    home: Option<PathBuf>,
    checks: Vec<Check>,
}

impl Doctor<'_> {
    fn report_ok(&mut self, name: &'static str, message: impl Into<String>) {
        self.report(Check::new(CheckState::Ok, name, message, None));
    }

    fn report_info(&mut self, name: &'static str, message: impl Into<String>) {
        self.report(Check::new(CheckState::Info, name, message, None));
    }

    fn report_problem(&mut self, name: &'static str, message: impl Into<String>, hint: &str) {
        self.report(Check::new(CheckState::Fail, name, message, Some(hint.to_owned())));
    }

    fn report_warning(&mut self, name: &'static str, message: impl Into<String>, hint: &str) {
        self.report(Check::new(CheckState::Warn, name, message, Some(hint.to_owned())));
    }

    /// Prints a check and keeps it for the verdict.
    fn report(&mut self, check: Check) {
        let styler = self.screen.styler;
        let mark = match check.state {
            CheckState::Ok => styler.paint_text(Color::Green, "✓"),
            CheckState::Info => styler.dim_text("·"),
            CheckState::Warn => styler.paint_text(Color::BoldYellow, "!"),
            CheckState::Fail => styler.paint_text(Color::BoldRed, "✗"),
        };
        self.screen.set_status("");
        let name = format!("{mark} {:<NAMES$} ", check.name);
        self.screen.write_entry(&name, NAMES + 3, &check.message);
        if let Some(hint) = &check.hint {
            let arrow = format!("{}→ ", " ".repeat(NAMES + 3));
            self.screen.write_entry(&arrow, NAMES + 5, hint);
        }
        self.checks.push(check);
    }

    /// Prints the verdict, or everything as JSON. Returns the exit code.
    fn report_verdict(&mut self, json: bool) -> i32 {
        let count = |state| self.checks.iter().filter(|check| check.state == state).count();
        let (failed, warned) = (count(CheckState::Fail), count(CheckState::Warn));
        if json {
            let report = serde_json::json!({
                "version": env!("CARGO_PKG_VERSION"),
                "ok": failed == 0,
                "problems": failed,
                "warnings": warned,
                "checks": self.checks,
            });
            // If the reader is gone, the exit code still reports the result.
            let _ = print_json(&format!("{report:#}\n"));
        }
        let styler = self.screen.styler;
        self.screen.write_gap();
        let verdict = match failed {
            1 => styler.paint_text(Color::Red, "1 problem: follow the → hint."),
            2.. => styler.paint_text(Color::Red, &format!("{failed} problems: follow the → hints.")),
            0 if warned > 0 => {
                styler.paint_text(Color::Yellow, "Everything required works; see the ! lines.")
            }
            0 => styler.paint_text(Color::Green, "Everything works."),
        };
        self.screen.write_line(&verdict);
        i32::from(failed > 0)
    }

    fn path(&self, path: &Path) -> String {
        format_path(path, self.home.as_deref())
    }

    fn report_binary(&mut self) {
        let path = std::env::current_exe()
            .map(|path| self.path(&path))
            .unwrap_or_default();
        let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
        self.report_info("program", format!("{path} ({platform})"));
    }

    fn check_config(&mut self, loaded: &LoadedConfig, trust: &Trust, folder: &Path) {
        let read = find_config_files(self.source, folder);
        let named = match read.as_slice() {
            [] => "no file; using the defaults".to_owned(),
            read => read
                .iter()
                .map(|file| self.path(Path::new(file)))
                .collect::<Vec<_>>()
                .join(", "),
        };
        let problems = &loaded.diagnostics;
        // An error matters more than a warning before it.
        let first = problems
            .iter()
            .find(|problem| is_error(problem))
            .or(problems.first());
        let state = match first {
            None => CheckState::Ok,
            Some(problem) if is_error(problem) => CheckState::Fail,
            Some(_) => CheckState::Warn,
        };
        let todo = first.map(|problem| match problems.len() {
            1 => problem.to_string(),
            count => format!(
                "{problem}\nand {} more; `agentls config check` lists all",
                count - 1
            ),
        });
        self.report(Check::new(state, "configuration", named, todo));
        if let Some(description) = describe_untrusted_settings(self.source, trust, folder) {
            let found = format!("not trusted: this folder {description}");
            let hint = Some("run /trust in a chat to review it".to_owned());
            self.report(Check::new(CheckState::Info, "trust", found, hint));
        }
    }

    async fn check_provider(&mut self, settings: &Settings, offline: bool) {
        let (name, model, reason) =
            // The same choice as at a first prompt, so that the doctor checks what a session would use.
            match doctor_models::select_default_model(settings, &self.source.env) {
                DefaultChoice::Configured { provider, model } => (provider, model, None),
                DefaultChoice::ByKey { provider, model, reason } => (provider, Some(model), Some(reason)),
                DefaultChoice::ProbeOllama { .. } => return self.check_ollama(settings, offline).await,
                DefaultChoice::NotConfigured { reason } => {
                    return self.report_problem("provider", reason, PROVIDER_HINT);
                }
            };
        let Some(chosen) = settings.providers.get(&name) else {
            return self.report_problem("provider", format!("`{name}` is not configured"), PROVIDER_HINT);
        };
        let label = match (reason, &model) {
            (Some(reason), _) => reason,
            (None, Some(model)) => format!("{name}, model {model}"),
            (None, None) => name.clone(),
        };
        if chosen.needs_key() && chosen.api_key.is_none() {
            let todo = missing_key_hint(&name);
            return self.report_problem("provider", format!("{label}: missing key"), &todo);
        }
        let is_script = chosen.kind == ApiKind::Script;
        let source = if is_script {
            ", replayed from a cassette"
        } else {
            ""
        };
        self.report_ok("provider", format!("{label}{source}"));
        if model.is_none() {
            let todo = format!("set [provider.{name}] model, or name one with --model");
            self.report_problem("model", format!("no model is set for {name}"), &todo);
        }
        if is_script {
            return;
        }
        self.report_proxies(settings, &name);
        self.report(doctor_models::check_catalog(current_day()));
        let spec = provider::build_spec(settings, chosen, Redactor::from_settings(settings));
        if let Some(model) = &model {
            let checks = doctor_models::check_model_offline(&spec, model, current_day());
            checks.into_iter().for_each(|check| self.report(check));
        }
        self.check_other_models(settings, &name, model.as_deref());
        if offline {
            return self.report_info("reachable", "not asked (--offline)");
        }
        let is_default = chosen.model.is_none() && settings.default_agent().model.is_none();
        self.probe_provider(&spec, model.as_deref(), is_default).await;
    }

    /// Reports the proxy through which each provider is reached.
    fn report_proxies(&mut self, settings: &Settings, chosen: &str) {
        let network = &settings.network;
        if network.https_proxy.is_none() && network.http_proxy.is_none() {
            return self.report_info("proxy", "none");
        }
        let providers = settings.providers.values();
        for provider in providers.filter(|provider| provider.configured || provider.name == chosen) {
            let Ok(address) = Url::parse(&provider.base_url) else {
                continue;
            };
            let used = match network.find_proxy(&address) {
                Some(proxy) => proxy.describe(),
                None => "no proxy".to_owned(),
            };
            self.report_info("proxy", format!("{} is reached through {used}", provider.name));
        }
    }

    /// Warns of retired models that the configuration names, apart from the chosen one.
    fn check_other_models(&mut self, settings: &Settings, chosen: &str, chosen_model: Option<&str>) {
        let today = current_day();
        let redactor = Redactor::from_settings(settings);
        for provider in settings.providers.values().filter(|provider| provider.configured) {
            let spec = provider::build_spec(settings, provider, redactor.clone());
            let named = [&provider.model, &provider.fallback_model].into_iter().flatten();
            let others =
                named.filter(|model| provider.name != chosen || Some(model.as_str()) != chosen_model);
            for check in others.filter_map(|model| doctor_models::check_retirement(&spec, model, today)) {
                self.report(check);
            }
        }
    }

    async fn probe_provider(&mut self, chosen: &ProviderSpec, model: Option<&str>, is_default: bool) {
        self.screen.set_status(&format!("asking {} …", chosen.name));
        let start = clock::now();
        let reached = provider::probe_provider(chosen, PROBE_TIMEOUT).await;
        let took = clock::now().saturating_duration_since(start).as_millis();
        let summary = format!("{} answered in {took} ms", chosen.name);
        match reached {
            Ok(ProbeResult::Models(list)) => {
                let count = list.names.len();
                let plural = if count == 1 { "" } else { "s" };
                self.report_ok("reachable", format!("{summary} and lists {count} model{plural}"));
                self.report_model_list(chosen, model, is_default, Some(&list));
            }
            Ok(ProbeResult::Key) => {
                self.report_ok("reachable", format!("{summary} and accepts the key"));
                // This provider shows its list to anyone, so the probe tested the key instead. Fetch the list now.
                let list = provider::fetch_list(chosen, PROBE_TIMEOUT).await;
                self.report_model_list(chosen, model, is_default, list.ok().flatten().as_ref());
            }
            Ok(ProbeResult::Address) => {
                let found = format!("{summary}; it lists no models, so its key was not checked");
                self.report_ok("reachable", found);
            }
            Err(error) => {
                let (found, hint) = (error.to_string(), error.user_action.clone());
                self.report(Check::new(CheckState::Fail, "reachable", found, hint));
            }
        }
    }

    fn report_model_list(
        &mut self,
        chosen: &ProviderSpec,
        model: Option<&str>,
        is_default: bool,
        list: Option<&ModelList>,
    ) {
        let Some(list) = list else { return };
        let Some(model) = model else {
            let names: Vec<&str> = list.chat.iter().take(NAMED).map(String::as_str).collect();
            if !names.is_empty() {
                self.report_info("models", format!("it lists {}", names.join(", ")));
            }
            return;
        };
        let check = doctor_models::check_model_list(chosen, (model, is_default), list, current_day());
        self.report(check);
        let announced = list.retirements.get(model).map(String::as_str);
        if announced.is_some() && announced != chosen.retirement(model).map(|end| end.date) {
            let listed = ProviderSpec {
                list: Some(Arc::new(list.clone())),
                ..chosen.clone()
            };
            let check = doctor_models::check_retirement(&listed, model, current_day());
            check.into_iter().for_each(|check| self.report(check));
        }
    }

    async fn check_ollama(&mut self, settings: &Settings, offline: bool) {
        let ollama = settings.providers.get("ollama").filter(|_| !offline);
        let models = match ollama {
            Some(ollama) => provider::list_models("ollama", &ollama.base_url, PROBE).await,
            None => None,
        };
        let list = match (ollama, models) {
            (Some(ollama), Some(models)) => {
                let spec = provider::build_spec(settings, ollama, Redactor::from_settings(settings));
                let list = provider::fetch_list(&spec, PROBE_TIMEOUT).await;
                Some(list.ok().flatten().unwrap_or(models))
            }
            _ => None,
        };
        match list.as_ref().map(ModelList::first_agent_model) {
            Some(Some(first)) => {
                self.report_ok("provider", format!("a local Ollama is running; it has {first}"));
            }
            Some(None) => self.report_problem(
                "provider",
                "a local Ollama is running, but has no model that can call tools",
                "ollama pull qwen3",
            ),
            None if offline => self.report_warning(
                "provider",
                "none is configured and no key is set; did not look for a local Ollama (--offline)",
                PROVIDER_HINT,
            ),
            None => self.report_problem(
                "provider",
                "none is configured, no key is set, and no local Ollama is running",
                PROVIDER_HINT,
            ),
        }
    }

    /// Starts a server as an editor does, and lists sessions to make it open its store.
    async fn check_server(&mut self, launch: &Launch) {
        self.screen.set_status("starting a server …");
        let start = clock::now();
        let mut client = match ServerClient::start(launch).await {
            Ok(client) => client,
            Err(error) => {
                return self.report(Check::new(CheckState::Fail, "server", error.to_string(), None));
            }
        };
        let took = clock::now().saturating_duration_since(start).as_millis();
        self.report_ok("server", format!("starts and initializes in {took} ms"));
        let params = ListSessionsParams {
            limit: Some(200),
            ..ListSessionsParams::default()
        };
        let listed: Result<ListSessionsResult, ClientError> =
            client.request(method::LIST_SESSIONS, &params).await;
        let places = self.source.places.as_ref();
        let data = places.map_or_else(String::new, |places| self.path(&places.data_dir));
        match listed {
            Ok(listed) => {
                let more = listed.next_cursor.map_or("", |_| "more than ");
                let count = listed.sessions.len();
                let plural = if count == 1 { "" } else { "s" };
                self.report_ok("store", format!("{data}: {more}{count} session{plural}"));
            }
            Err(error) => {
                let todo = format!("check that {data} is yours and writable and that its disk has room");
                self.report_problem("store", error.to_string(), &todo);
            }
        }
        client.close().await;
    }
}
