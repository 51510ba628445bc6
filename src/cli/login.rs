//! `agentls login` and `agentls logout`: store the key of a provider, or remove it.
//!
//! A key is tried with one free request before it is stored. Only the user's own configuration says where that goes: a
//! folder's files take no part. A key is never shown, and never taken from the command line, which others can read.

use std::io::{IsTerminal, Read as _};
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;

use super::args::{LoginArguments, LogoutArguments};
use super::blocks::render_note;
use super::doctor_models::select_default_model;
use super::keys::{Key, RawKeys};
use super::screen::{Screen, print_json};
use super::signals::Signals;
use super::style::{Color, clean_line, format_path};
use crate::base::nearest::nearest_name;
use crate::config::{
    ApiKind, ConfigSource, DefaultChoice, KeyFile, LoginKeys, ProviderSettings, Redactor, Settings,
    key_variable, providers_with_key, takes_key,
};
use crate::provider::{self, ProbeResult, ProviderFault};

/// How long a provider may take to answer.
const TRY: Duration = Duration::from_secs(10);
/// The longest key that is read from standard input, in bytes.
const MAX_KEY: u64 = 64 * 1024;
/// The exit code when the user cancels.
const CANCELED: i32 = 130;

/// The exit code, or what to say.
type LoginResult = Result<i32, Box<dyn std::error::Error>>;

/// Runs `agentls login`.
pub(super) async fn log_in(
    arguments: LoginArguments,
    source: &ConfigSource,
    screen: &mut Screen,
) -> LoginResult {
    let mut login = Login::open(source, screen)?;
    if arguments.list {
        return login.list_keys(arguments.json);
    }
    let reads_key = arguments.with_key.is_some() || !std::io::stdin().is_terminal();
    let provider = match arguments.provider {
        Some(name) => login.find_provider(&name)?,
        None if reads_key => return Err("name the provider: `agentls login PROVIDER`".into()),
        None => match login.choose_provider().await? {
            Some(provider) => provider,
            None => return login.report_cancel(),
        },
    };
    let key = if reads_key {
        read_piped_key()?
    } else {
        let label = format!("Key for {} (not shown; Ctrl-C cancels): ", provider.name);
        match login.ask(&label, true).await? {
            Some(key) => key,
            None => return login.report_cancel(),
        }
    };
    let provider = ProviderSettings {
        api_key: Some(check_key(&key)?),
        ..provider
    };
    if !arguments.no_check && !login.try_key(&provider, reads_key).await? {
        return Ok(1);
    }
    login.store_key(&provider)
}

/// Runs `agentls logout`.
pub(super) async fn log_out(
    arguments: LogoutArguments,
    source: &ConfigSource,
    screen: &mut Screen,
) -> LoginResult {
    let login = Login::open(source, screen)?;
    let names: Vec<String> = login.file.try_load()?.providers().map(str::to_owned).collect();
    let named = match arguments.provider {
        Some(name) => vec![name],
        None if arguments.all || names.len() == 1 => names,
        None if names.is_empty() => Vec::new(),
        None => {
            let names = names.join(", ");
            return Err(format!("say which: {names}; or remove all with `agentls logout --all`").into());
        }
    };
    let mut code = 1;
    for name in &named {
        if login.file.remove(name)? {
            login.screen.write_line(&format!("removed the key of {name}"));
            code = 0;
        }
    }
    let settings = source.load_settings(None, &Default::default()).settings;
    let left = named.iter().filter_map(|name| settings.providers.get(name));
    for provider in left {
        if let Some(origin) = describe_key_origin(provider, source) {
            warn(
                login.screen,
                &format!("! {} still has a key, from {origin}", provider.name),
            );
        }
    }
    if code != 0 {
        login
            .screen
            .write_line("no such login; `agentls login --list` shows them");
    }
    Ok(code)
}

struct Login<'a> {
    source: &'a ConfigSource,
    screen: &'a mut Screen,
    file: KeyFile,
    settings: Settings,
}

/// A key that is in use, as `login --list --json` prints it.
#[derive(Serialize)]
struct ListedKey<'a> {
    provider: &'a str,
    /// Where the key is from.
    from: String,
    /// A login is stored too, but not used.
    #[serde(rename = "unusedLogin")]
    unused_login: bool,
}

impl<'a> Login<'a> {
    fn open(source: &'a ConfigSource, screen: &'a mut Screen) -> Result<Self, String> {
        let places = source.places.as_ref();
        let file = places.map(|places| places.key_file());
        let loaded = source.load_settings(None, &Default::default());
        Ok(Self {
            file: file.ok_or("no home folder: set HOME, or XDG_DATA_HOME and XDG_CONFIG_HOME")?,
            settings: Settings::clone(&loaded.settings),
            source,
            screen,
        })
    }

    fn report_cancel(&mut self) -> LoginResult {
        self.screen.write_line("canceled; nothing was stored");
        Ok(CANCELED)
    }

    /// Returns the names that a login can have: known providers, and those of the user's own configuration.
    fn list_names(&self) -> Vec<String> {
        let mut names: Vec<String> = providers_with_key().map(str::to_owned).collect();
        let own = self.settings.providers.values();
        let own = own.filter(|provider| provider.configured && !is_keyless(provider));
        for provider in own {
            if !names.contains(&provider.name) {
                names.push(provider.name.clone());
            }
        }
        names
    }

    /// Returns the settings of a provider, before it has a key.
    fn find_provider(&self, name: &str) -> Result<ProviderSettings, String> {
        let settings = self.source.settings_with_login(name).settings;
        if let Some(reason) = settings.broken_providers.get(name) {
            return Err(format!("the provider {name} cannot be used: {reason}"));
        }
        let is_known = self.list_names().iter().any(|known| known == name);
        match settings.providers.get(name) {
            Some(provider) if is_known => Ok(provider.clone()),
            Some(_) => Err(format!("{name} needs no key")),
            None => {
                let names = self.list_names();
                let near = nearest_name(name, names.iter().map(String::as_str));
                let near = near.map_or_else(String::new, |near| format!(", did you mean {near}?"));
                Err(format!(
                    "no provider is called {:?}{near} `agentls docs providers` lists them, and says how to connect \
                     one of your own",
                    clean_line(name, 40)
                ))
            }
        }
    }

    /// Asks which provider, by parts of names. `None` if the user cancels.
    async fn choose_provider(&mut self) -> Result<Option<ProviderSettings>, String> {
        let names = self.list_names();
        let mut shown: Vec<String> = Vec::new();
        loop {
            let label = "Provider (a part of its name; Enter lists all): ";
            let Some(words) = self.ask(label, false).await? else {
                return Ok(None);
            };
            let words = words.trim().to_lowercase();
            let numbered = words
                .parse::<usize>()
                .ok()
                .and_then(|number| shown.get(number.checked_sub(1)?));
            let exact = numbered.or_else(|| names.iter().find(|name| **name == words));
            let matching: Vec<String> = match exact {
                Some(name) => vec![name.clone()],
                None => names
                    .iter()
                    .filter(|name| name.contains(&words))
                    .cloned()
                    .collect(),
            };
            match matching.as_slice() {
                [] => {
                    let near = nearest_name(&words, names.iter().map(String::as_str));
                    let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
                    self.screen.write_line(&format!("no provider matches{near}"));
                }
                [name] => return self.find_provider(name).map(Some),
                _ => {
                    let lines = matching.iter().zip(1..);
                    let entries: Vec<String> =
                        lines.map(|(name, number)| format!("{number} {name}")).collect();
                    self.screen.write_entry("  ", 2, &entries.join("   "));
                    shown = matching;
                }
            }
        }
    }

    /// Reads a line at the terminal; `None` if the user cancels. A hidden one is not shown.
    async fn ask(&mut self, label: &str, hidden: bool) -> Result<Option<String>, String> {
        let open = || {
            std::io::Result::Ok((
                RawKeys::open(self.screen.styler.dumb)?,
                Signals::install_handlers()?,
            ))
        };
        let (mut keys, mut signals) = open().map_err(|error| format!("cannot read the terminal: {error}"))?;
        let mut line = String::new();
        self.screen.fresh_line();
        let mark = self.screen.mark_line();
        self.screen.write(label);
        let answer = loop {
            let key = tokio::select! { biased;
                _ = signals.next() => None,
                key = keys.next() => key,
            };
            match key {
                None | Some(Key::CtrlC | Key::Esc) => break None,
                Some(Key::CtrlD) if line.is_empty() => break None,
                Some(Key::Enter) => break Some(line),
                Some(Key::Char(letter)) => line.push(letter),
                // A key that is copied often has a line end behind it.
                Some(Key::Paste(text)) => line.push_str(text.trim()),
                Some(Key::Backspace) => _ = line.pop(),
                Some(Key::CtrlU | Key::CtrlW) => line.clear(),
                Some(_) => continue,
            }
            // A key may be longer than a line, so it is not even counted.
            if !hidden && self.screen.erase_to(mark) {
                self.screen.write(&format!("{label}{line}"));
            }
        };
        drop(keys);
        self.screen.write("\n");
        Ok(answer)
    }

    /// Tries a key. Returns whether to store it.
    async fn try_key(&mut self, provider: &ProviderSettings, reads_key: bool) -> Result<bool, String> {
        let name = &provider.name;
        self.screen.set_status(&format!("trying the key at {name} …"));
        let redactor = Redactor::from_settings(&self.settings);
        if let Some(key) = &provider.api_key {
            redactor.learn_provider_key(key);
        }
        let spec = provider::build_spec(&self.settings, provider, redactor);
        let tried = provider::probe_provider(&spec, TRY).await;
        self.screen.set_status("");
        let styler = self.screen.styler;
        let accepted = |text: &str| format!("{} {name} {text}", styler.paint_text(Color::Green, "✓"));
        let problem = match tried {
            Ok(ProbeResult::Models(list)) => {
                let count = list.names.len();
                let line = accepted(&format!("accepts the key and lists {count} models"));
                self.screen.write_line(&line);
                return Ok(true);
            }
            Ok(ProbeResult::Key) => {
                self.screen.write_line(&accepted("accepts the key"));
                return Ok(true);
            }
            Ok(ProbeResult::Address) => {
                let line = accepted("answers, but lists no models, so the key was not checked");
                self.screen.write_line(&line);
                return Ok(true);
            }
            Err(error) if error.fault == ProviderFault::Unauthorized => {
                return Err(format!(
                    "{name} refuses the key: {}; nothing was stored",
                    error.message
                ));
            }
            Err(error) => format!("the key was not checked: {}", error.message),
        };
        warn(self.screen, &format!("! {problem}"));
        if reads_key {
            return Err("nothing was stored; `--no-check` stores a key without trying it".to_owned());
        }
        let answer = self.ask("Keep the key anyway? (y/N) ", false).await?;
        let keeps = answer.is_some_and(|answer| answer.trim().eq_ignore_ascii_case("y"));
        if !keeps {
            self.screen.write_line("nothing was stored");
        }
        Ok(keeps)
    }

    fn store_key(&mut self, provider: &ProviderSettings) -> LoginResult {
        let (name, path) = (&provider.name, self.file.path().to_path_buf());
        let shown = format_path(&path, self.source.env.home_dir());
        let key = provider.api_key.as_ref().ok_or("no key was given")?;
        let stored = self.file.store(name, key);
        stored.map_err(|error| format!("cannot store the key in {shown}: {error}"))?;
        self.screen
            .write_line(&format!("stored in {shown}; only you can read it"));
        let settings = self.source.load_settings(None, &Default::default()).settings;
        let now = settings.providers.get(name).filter(|now| !now.is_login_key);
        if let Some(now) = now {
            let origin = describe_key_origin(now, self.source);
            let origin = origin.unwrap_or_else(|| format!("[provider.{name}] api_key"));
            warn(
                self.screen,
                &format!("! {origin} is set, and wins over the stored key"),
            );
        }
        let next = describe_choice(&settings, self.source, name);
        self.screen.write_entry("", 0, &next);
        Ok(0)
    }

    fn list_keys(&mut self, json: bool) -> LoginResult {
        let (keys, problem) = match self.file.try_load() {
            Ok(keys) => (keys, None),
            Err(problem) => (LoginKeys::default(), Some(problem)),
        };
        let providers = self.settings.providers.values();
        let mut listed: Vec<ListedKey<'_>> = providers
            .filter_map(|provider| {
                Some(ListedKey {
                    provider: &provider.name,
                    from: describe_key_origin(provider, self.source)?,
                    unused_login: !provider.is_login_key && keys.find(&provider.name).is_some(),
                })
            })
            .collect();
        // Presets of one vendor share a variable: whoever did not choose one sees the first.
        listed.sort_by_key(|key| key.provider);
        if json {
            let text = serde_json::to_string_pretty(&listed)?;
            print_json(&format!("{text}\n"))?;
            return problem.map_or(Ok(0), |problem| Err(problem.into()));
        }
        for key in &listed {
            let unused = if key.unused_login {
                "; it wins over the key of the login"
            } else {
                ""
            };
            let first = format!("{:<20} ", key.provider);
            self.screen
                .write_entry(&first, 21, &format!("{}{unused}", key.from));
        }
        if let Some(problem) = problem {
            return Err(problem.into());
        }
        if listed.is_empty() {
            self.screen
                .write_line("no provider has a key; `agentls login` stores one");
        }
        Ok(0)
    }
}

fn warn(screen: &mut Screen, text: &str) {
    let rendered = render_note(screen.styler, screen.width(), Color::Yellow, text);
    screen.write(&rendered);
}

/// Returns whether a provider takes no key: an engine on this machine, or a script.
fn is_keyless(provider: &ProviderSettings) -> bool {
    provider.kind == ApiKind::Script || !takes_key(&provider.name)
}

/// Says where the key in use is from; `None` without a key.
pub(super) fn describe_key_origin(provider: &ProviderSettings, source: &ConfigSource) -> Option<String> {
    let key = provider.api_key.as_ref()?.expose_secret();
    if provider.is_login_key {
        return Some("`agentls login`".to_owned());
    }
    let variable = key_variable(&provider.name);
    let variable = variable.filter(|variable| source.env.non_empty(variable) == Some(key));
    Some(match variable {
        Some(variable) => variable.to_owned(),
        None => format!("[provider.{}] api_key", provider.name),
    })
}

/// Says where prompts go now, after a login to `name`.
fn describe_choice(settings: &Settings, source: &ConfigSource, name: &str) -> String {
    match select_default_model(settings, &source.env) {
        DefaultChoice::Configured {
            provider,
            model: Some(model),
        }
        | DefaultChoice::ByKey { provider, model, .. }
            if provider == name =>
        {
            format!("Prompts go to {name} with {model}. Try it: `agentls chat`")
        }
        DefaultChoice::Configured { provider, .. } if provider == name => format!(
            "Prompts go to {name}, but no model is set: `agentls models` lists them; set [provider.{name}] model, or \
             use --model"
        ),
        DefaultChoice::Configured { provider, .. } | DefaultChoice::ByKey { provider, .. } => {
            format!("Prompts still go to {provider}. To use {name}: `agentls chat --provider {name}`")
        }
        DefaultChoice::ProbeOllama { .. } | DefaultChoice::NotConfigured { .. } => {
            format!("To use it: `agentls chat --provider {name}`")
        }
    }
}

fn read_piped_key() -> Result<String, String> {
    let mut text = String::new();
    let read = std::io::stdin()
        .lock()
        .take(MAX_KEY + 1)
        .read_to_string(&mut text);
    let read = read.map_err(|error| format!("cannot read the key from standard input: {error}"))?;
    if read as u64 > MAX_KEY {
        let limit = MAX_KEY / 1024;
        return Err(format!(
            "standard input has more than {limit} KiB, too long for a key; nothing was stored. Pass only the key"
        ));
    }
    Ok(text)
}

/// Checks that a key can be sent.
fn check_key(text: &str) -> Result<SecretString, String> {
    let key = text.trim();
    if key.is_empty() {
        return Err("no key was given; nothing was stored".to_owned());
    }
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("the key contains a blank, a line end or another character that no key has".to_owned());
    }
    Ok(key.into())
}
