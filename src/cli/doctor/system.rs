//! Checks of `agentls doctor` on this machine: programs, folders, keys, editors.
//!
//! Leaves no trace: it removes each file and folder that it creates to test whether that is possible.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use secrecy::ExposeSecret;

use super::Doctor;
use crate::base::private::NO_FOLLOW;
use crate::cli::doctor_models::{Check, CheckState, select_default_model};
use crate::cli::sandbox_tools::SandboxTools;
use crate::config::{DefaultChoice, HomeAccess, SandboxSettings, Settings, key_variables, providers_of_key};
use crate::domain::{SandboxLevel, SandboxMethod, SandboxNetwork, SandboxPolicy};
use crate::sandbox::needs_privileges;
use crate::workspace::command_sandbox::SandboxDetection;
use crate::workspace::process::find_own_program;
use crate::workspace::sandbox_method::METHOD_VARIABLE;

/// The hint for a missing program.
const NO_PROGRAM: &str = "install it in an absolute PATH folder outside the workspace";

impl Doctor<'_> {
    /// Checks the programs that the server starts by itself.
    pub(super) fn check_programs(&mut self, folder: &Path) {
        for (name, state, without) in [
            ("bash", CheckState::Fail, "the agent cannot run commands"),
            (
                "git",
                CheckState::Warn,
                "the agent sees no branch, no changes and no history",
            ),
        ] {
            let path = self.source.env.get("PATH").map(OsStr::new);
            // The server never runs a program from inside the workspace, so the search excludes the folder.
            match find_own_program(name, path, Some(folder)) {
                Some(path) => self.report_ok(name, self.path(&path)),
                None => {
                    let found = format!("not found: {without}");
                    self.report(Check::new(state, name, found, Some(NO_PROGRAM.to_owned())));
                }
            }
        }
    }

    /// Reports how commands are confined, or would be.
    pub(super) async fn check_sandbox(&mut self, settings: &Settings, folder: &Path) {
        let detection = SandboxDetection::default();
        let detected = detection.detect().await;
        let level = detected.method.level();
        let (name, network) = (detected.method.name(), settings.sandbox.network);
        if !settings.sandbox.enabled {
            return self.report_info("sandbox", format!("off; available here: {level} ({name})"));
        }
        self.report_missing_paths(&settings.sandbox);
        if level != SandboxLevel::None && needs_privileges(folder) {
            let found = "another user owns this folder: commands have no privileges of root, so they write nothing in it";
            self.report_warning("sandbox", found, "run agentls as the owner of the folder");
        }
        let found = format!("{} ({name})", detected.method.describe(network));
        if detected.method.limit_network(network) != network {
            let found =
                format!("{found}: network = \"proxy\" does not work here, so commands have no network");
            self.report_warning("sandbox network", found, "see `agentls docs security`");
        }
        if level == SandboxLevel::Full {
            self.report_ok("sandbox", found);
            self.check_caches().await;
            return self.report_sandbox_modes(settings, detected.method);
        }
        let hint = format!("{}; see `agentls docs security`", detected.explain());
        if settings.sandbox.required {
            self.report_problem("sandbox", format!("{found}: commands are refused"), &hint);
        } else if level == SandboxLevel::None && detected.failures.is_empty() {
            // Whoever forces a method knows what they do; otherwise there is a reason.
            self.report_info("sandbox", format!("none, as {METHOD_VARIABLE} says"));
        } else {
            self.report_warning("sandbox", found, &hint);
        }
        if level != SandboxLevel::None && !settings.sandbox.required {
            self.report_sandbox_modes(settings, detected.method);
        }
    }

    /// Reports a system that cannot keep apart what commands change in caches of build tools.
    async fn check_caches(&mut self) {
        let tried = match SandboxTools::prepare(self.source).await {
            Ok(tools) => tools.keeps_caches_apart(self.source).await,
            Err(error) => Err(error),
        };
        let found = match tried {
            Ok(true) => return,
            Ok(false) => {
                "this system cannot keep apart what commands change in caches of build tools".to_owned()
            }
            Err(error) => format!("cannot be tried: {error}"),
        };
        self.report_warning("sandbox caches", found, "see `agentls docs security`");
    }

    /// Reports entries that name nothing: probably they are misspelled.
    fn report_missing_paths(&mut self, settings: &SandboxSettings) {
        for (key, entries) in [
            ("write", &settings.write),
            ("read_allow", &settings.read_allow),
            ("read_deny", &settings.read_deny),
        ] {
            for entry in entries.iter().filter(|entry| !entry.contains(['*', '?', '['])) {
                if Path::new(entry).try_exists().is_ok_and(|exists| !exists) {
                    let found = format!("{key} names {entry}, which does not exist");
                    self.report_warning("sandbox", found, "correct the path, or create it");
                }
            }
        }
    }

    /// Reports what confined commands may do in each mode.
    fn report_sandbox_modes(&mut self, all_settings: &Settings, method: SandboxMethod) {
        let settings = &all_settings.sandbox;
        let listed = |head: &str, entries: &[String]| match entries {
            [] => String::new(),
            entries => format!("{head}{}", entries.join(", ")),
        };
        let reads = match method.level() {
            SandboxLevel::Full => {
                let denied = listed(", ", &settings.read_deny);
                let home = match settings.read {
                    HomeAccess::Home => String::new(),
                    HomeAccess::Allowlist => {
                        let allowed = listed(", ", &settings.read_allow);
                        format!(
                            ", and of the home folder only tool chains, caches and git's settings{allowed}"
                        )
                    }
                };
                format!("reads all but keys and tokens{denied}{home}")
            }
            SandboxLevel::Partial | SandboxLevel::None => "reads all".to_owned(),
        };
        let network = match method.limit_network(settings.network) {
            SandboxNetwork::Offline => "no network".to_owned(),
            SandboxNetwork::Proxy => {
                let hosts = listed(" to ", &settings.allow_hosts);
                format!("network through a proxy{hosts}, which asks about other hosts")
            }
            SandboxNetwork::Open => "the whole network".to_owned(),
        };
        let more = listed(", ", &settings.write);
        let outside = if settings.required {
            "; nothing runs outside"
        } else {
            ""
        };
        let plan = "plan, which runs only commands that read";
        for (modes, writes, outside) in [
            (plan, "its temporary folder".to_owned(), ""),
            (
                "ask and autoEdit",
                format!("the workspace, its temporary folder, caches of build tools{more}"),
                outside,
            ),
        ] {
            let found = format!("in {modes}, a command writes {writes}; {reads}; {network}{outside}");
            self.report_info("sandbox", found);
        }
        self.report_info("sandbox", "in full, commands are not confined");
        let hooks = all_settings.hooks.values();
        let free = hooks.filter(|hook| hook.sandbox == Some(SandboxPolicy::Off));
        let free: Vec<String> = free.map(|hook| hook.name.clone()).collect();
        if !all_settings.hooks.is_empty() {
            let never = listed("; never confined: ", &free);
            let found = format!(
                "hooks may do what commands may in ask; in the mode full, your own without `sandbox` are not \
                 confined{never}"
            );
            self.report_info("sandbox", found);
        }
    }

    /// Reports which keys are set, what uses them, and which variables commands do not receive.
    pub(super) fn check_keys(&mut self, settings: &Settings) {
        let env = &self.source.env;
        let is_set = |name: &&str| env.non_empty(name).is_some();
        let set: Vec<&str> = key_variables().into_iter().filter(is_set).collect();
        let found = match set.as_slice() {
            [] => "no key variable of a known provider is set".to_owned(),
            set => format!("in the environment: {}", set.join(", ")),
        };
        let logins: Vec<&str> = settings.logins.providers().collect();
        let found = match logins.as_slice() {
            [] => found,
            logins => format!("{found}; from `agentls login`: {}", logins.join(", ")),
        };
        let empty = key_variables()
            .into_iter()
            .filter(|name| env.get(name).is_some() && env.non_empty(name).is_none());
        let empty: Vec<&str> = empty.collect();
        let unused = self.unused_keys(settings, &set);
        self.report_info("keys", found);
        if !empty.is_empty() {
            let found = format!("set, but empty: {}", empty.join(", "));
            self.report(Check::new(CheckState::Warn, "keys", found, None));
        }
        unused.into_iter().for_each(|check| self.report(check));
        let env = &self.source.env;
        let withheld: Vec<String> = settings
            .secret_env_names(env)
            .into_iter()
            // A variable's name may contain anything, so names that could act on a terminal are not listed.
            .filter(|name| env.non_empty(name).is_some() && name.chars().all(|c| c.is_ascii_graphic()))
            .collect();
        if !withheld.is_empty() {
            let found = format!("withheld from commands: {}", withheld.join(", "));
            let hint =
                "to pass a variable on, set [tool.bash] pass_env = [\"NAME\"] in your own configuration";
            self.report(Check::new(
                CheckState::Info,
                "withheld",
                found,
                Some(hint.to_owned()),
            ));
        }
    }

    /// Returns the keys that are set although prompts go to another provider, or to none.
    fn unused_keys(&self, settings: &Settings, set: &[&str]) -> Vec<Check> {
        let env = &self.source.env;
        let chosen = match select_default_model(settings, env) {
            DefaultChoice::Configured { provider, .. } | DefaultChoice::ByKey { provider, .. } => {
                Some(provider)
            }
            DefaultChoice::ProbeOllama { .. } | DefaultChoice::NotConfigured { .. } => None,
        };
        let key = chosen
            .as_ref()
            .and_then(|name| settings.providers.get(name)?.api_key.as_ref())
            .map(|key| key.expose_secret().to_owned());
        let is_used = |variable: &str| key.is_some() && env.non_empty(variable) == key.as_deref();
        let unused = set.iter().filter(|variable| !is_used(variable));
        let describe = |variable: &&str| {
            let own = providers_of_key(variable).next().unwrap_or_default();
            let todo = format!("to use it, set --provider {own} or [agent.default] provider = \"{own}\"");
            let (state, found, hint) = match &chosen {
                // Unused keys are normal for a user with several providers.
                Some(name) if name != own => (
                    CheckState::Info,
                    format!("{variable} is set, but prompts go to {name}"),
                    todo,
                ),
                Some(name) => (
                    CheckState::Info,
                    format!("{variable} is set, but {name} has another key"),
                    format!("the key is set in [provider.{name}] api_key"),
                ),
                None => (
                    CheckState::Warn,
                    format!("{variable} is set, but does not select a provider"),
                    todo,
                ),
            };
            Check::new(state, "keys", found, Some(hint))
        };
        unused.map(describe).collect()
    }

    /// Checks whether sessions can be stored and the log can be written.
    pub(super) fn check_folders(&mut self) {
        let Some(places) = &self.source.places else {
            let todo = "set HOME, or XDG_DATA_HOME and XDG_CONFIG_HOME";
            return self.report_problem("data", "no home folder", todo);
        };
        let (data, state_dir) = (places.data_dir.clone(), places.state_dir.clone());
        let display_path = self.path(&data);
        let problem = try_writing(&data)
            .err()
            .map(|error| format!("{display_path} cannot be written: {error}"));
        let problem = problem.or_else(|| {
            let file = unwritable_file(&data)?;
            Some(format!("{} cannot be written", self.path(&file)))
        });
        match problem {
            None => self.report_ok("data", format!("{display_path} can be written")),
            Some(problem) => {
                let todo = "make it writable for you, or set XDG_DATA_HOME to a writable folder; without it sessions are not kept";
                self.report_problem("data", problem, todo);
            }
        }
        if let Err(error) = try_writing(&state_dir) {
            let problem = format!("{} cannot be written: {error}", self.path(&state_dir));
            let todo =
                "make it writable for you, or set XDG_STATE_HOME; without it there is no log and no history";
            self.report_warning("state", problem, todo);
        }
    }

    pub(super) fn report_log(&mut self, settings: &Settings) {
        let usual = self.source.places.as_ref().map(|places| places.log_file());
        let log = settings.logging.file.clone().or(usual);
        let log = log.map(|log| self.path(&log)).unwrap_or_default();
        let level = settings.logging.level.name();
        self.report_info("log", format!("{log} (level {level})"));
    }

    pub(super) fn check_editors(&mut self) {
        let data = self.source.env.non_empty("XDG_DATA_HOME").map(PathBuf::from);
        let data = data.or_else(|| Some(self.home.as_ref()?.join(".local/share")));
        let data = data.unwrap_or_default().join("nvim");
        let mut nvim: Vec<PathBuf> = vec![data.join("lazy")];
        nvim.extend(
            list_entries(&data.join("site/pack"))
                .flat_map(|pack| ["start", "opt"].map(|kind| pack.join(kind))),
        );
        let has_nvim = nvim
            .iter()
            .flat_map(|folder| list_entries(folder))
            .any(|plugin| plugin.join("lua/agentls").is_dir());
        let code = self.home.clone().unwrap_or_default().join(".vscode/extensions");
        let is_ours = |entry: PathBuf| {
            entry
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("agentls.agentls"))
        };
        let has_code = list_entries(&code).any(is_ours);
        for (program, name, has_plugin) in [("nvim", "Neovim", has_nvim), ("code", "VS Code", has_code)] {
            let Some(path) = self.on_path(program) else {
                self.report_info(name, "not on the PATH");
                continue;
            };
            let path = self.path(&path);
            if has_plugin {
                self.report_ok(name, format!("{path}, with the agentls plug-in"));
            } else {
                let found = format!("{path}; no agentls plug-in in its usual folders");
                self.report_info(name, found);
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

fn list_entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let read = fs::read_dir(folder).into_iter().flatten();
    read.filter_map(Result::ok).map(|entry| entry.path())
}

/// Creates the folder if it is missing, writes a file into it, and removes both.
fn try_writing(folder: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|part| !part.exists()).collect();
    let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let written = created.and_then(|()| {
        let file = folder.join(format!(".doctor-{}", std::process::id()));
        let opened = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .custom_flags(NO_FOLLOW)
            .open(&file);
        let written = opened.and_then(|mut file| file.write_all(b"agentls").and_then(|()| file.sync_data()));
        // Also removes a partly written file.
        let removed = fs::remove_file(&file);
        written.and(removed)
    });
    // From the innermost; `remove_dir` keeps a folder that something else filled in the meantime.
    for part in missing {
        let _ = fs::remove_dir(part);
    }
    written
}

/// Returns a file of the folder that this user may not write, if there is one.
fn unwritable_file(folder: &Path) -> Option<PathBuf> {
    list_entries(folder).find(|entry| access(entry, Access::WRITE_OK).is_err())
}
