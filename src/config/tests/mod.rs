//! Tests of the whole configuration: layers in, settings and diagnostics out.

mod editor;
mod logins;
mod mcp;
mod redirects;
mod rules;
mod sandbox;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::config::*;
use crate::domain::{Cost, Mode};

/// The example of R-CONF, unchanged.
const EXAMPLE: &str = r#"
    [provider.anthropic]
    api_key = "${ANTHROPIC_API_KEY}"
    model = "claude-sonnet-4-20250514"
    max_retries = 3
    fallback = "openrouter"

    [provider.openrouter]
    api_key = "${OPENROUTER_API_KEY}"
    model = "anthropic/claude-sonnet-4"
    max_retries = 2

    [provider.work]
    kind = "openai"
    base_url = "https://llm.example.com/v1"
    initial_backoff_ms = 500

    [agent.default]
    provider = "anthropic"
    mode = "ask"
    max_iterations = 50
    max_session_cost = 5.0

    [logging]
    level = "info"
    file = "~/.local/state/agentls/agentls.log"
    format = "json"
"#;

/// Layers for a test; fields that are not set are absent.
#[derive(Default)]
struct TestLayers<'a> {
    user: &'a str,
    workspace: &'a str,
    local: &'a str,
    mcp_json: &'a str,
    vscode_json: &'a str,
    options: Option<Value>,
    editor: Option<Value>,
    env: &'a [(&'a str, &'a str)],
    flags: Flags,
    trusted: bool,
    accepted: &'a [(&'a str, &'a str)],
    tools: &'a [&'a str],
    logins: &'a [(&'a str, &'a str)],
}

impl TestLayers<'_> {
    fn env(&self) -> Env {
        Env::from_vars(self.env.iter().copied().chain([("HOME", "/h")]))
    }

    fn load(&self) -> LoadedConfig {
        self.with_inputs(load_settings)
    }

    fn describe(&self) -> FolderDescription {
        self.with_inputs(describe_folder)
    }

    fn with_inputs<T>(&self, make: fn(&LoadInputs<'_>) -> T) -> T {
        let env = self.env();
        let places = ConfigPaths::from_env(&env, None);
        let file = |path: &str, text: &str| {
            let bytes = Ok(text.as_bytes().to_vec());
            (!text.is_empty()).then(|| FileText {
                path: path.into(),
                bytes,
            })
        };
        let root = Path::new("/w");
        let tools: Vec<String> = self.tools.iter().map(ToString::to_string).collect();
        make(&LoadInputs {
            env: &env,
            places: places.as_ref(),
            keys: &LoginKeys::of(self.logins),
            user: file("/h/c.toml", self.user),
            root: Some(root),
            workspace: file("/w/.agentls/config.toml", self.workspace),
            local: file("/w/.agentls/config.local.toml", self.local),
            foreign_mcp: [
                file("/w/.mcp.json", self.mcp_json),
                file("/w/.vscode/mcp.json", self.vscode_json),
            ]
            .into_iter()
            .flatten()
            .collect(),
            options: self.options.as_ref(),
            editor: self.editor.as_ref(),
            flags: &self.flags,
            canonicalize: Path::to_path_buf,
            trust: &Trust {
                folders: self
                    .trusted
                    .then(|| (root.to_path_buf(), None))
                    .into_iter()
                    .collect(),
                redirects: self
                    .accepted
                    .iter()
                    .map(|(provider, to)| (root.to_path_buf(), provider.to_string(), to.to_string()))
                    .collect(),
            },
            tools: &tools,
        })
    }
}

/// The default model of a provider, as the caller of the selection supplies it.
fn default_model(provider: &str) -> Option<String> {
    let has_one = ["anthropic", "openai", "openrouter", "deepseek"].contains(&provider);
    has_one.then(|| format!("{provider}s-usual"))
}

fn user(text: &str) -> LoadedConfig {
    TestLayers {
        user: text,
        ..TestLayers::default()
    }
    .load()
}

fn lines(loaded: &LoadedConfig) -> Vec<String> {
    loaded.diagnostics.iter().map(ToString::to_string).collect()
}

#[test]
fn specification_example_loads_unchanged() {
    let keys = [
        ("ANTHROPIC_API_KEY", "sk-ant-1"),
        ("OPENROUTER_API_KEY", "sk-or-1"),
    ];
    let loaded = TestLayers {
        user: EXAMPLE,
        env: &keys,
        ..TestLayers::default()
    }
    .load();
    assert_eq!(lines(&loaded), [""; 0]);
    let settings = &loaded.settings;

    let anthropic = &settings.providers["anthropic"];
    assert_eq!(anthropic.kind, ApiKind::Anthropic);
    assert_eq!(anthropic.base_url, "https://api.anthropic.com");
    assert_eq!(anthropic.api_key.as_ref().unwrap().expose_secret(), "sk-ant-1");
    assert_eq!(anthropic.model.as_deref(), Some("claude-sonnet-4-20250514"));
    assert_eq!(
        (anthropic.retry_policy().max_retries, &anthropic.fallback[..]),
        (3, &["openrouter".to_owned()][..])
    );
    assert_eq!(settings.providers["openrouter"].retry_policy().max_retries, 2);
    let work = &settings.providers["work"];
    assert_eq!(
        (work.kind, work.base_url.as_str()),
        (ApiKind::OpenAi, "https://llm.example.com/v1")
    );
    assert_eq!(work.retry_policy().backoff.initial, Duration::from_millis(500));
    assert!(work.api_key.is_none() && !work.needs_key() && !work.local);

    let agent = settings.default_agent();
    assert_eq!((agent.mode, agent.max_steps), (Mode::Ask, 50));
    assert_eq!(agent.max_session_cost, Some(Cost::from_usd(5.0)));
    assert_eq!(
        settings.logging.file.as_deref(),
        Some(Path::new("/h/.local/state/agentls/agentls.log"))
    );
    assert_eq!(settings.logging.format, LogFormat::Json);

    // It also loads without the variables, and reports which are missing.
    let without = user(EXAMPLE);
    assert!(
        without
            .diagnostics
            .iter()
            .all(|problem| problem.severity == ConfigSeverity::Warning)
    );
    assert_eq!(
        lines(&without)[0],
        "/h/c.toml:3:5: warning: provider.anthropic.api_key: the environment variable ANTHROPIC_API_KEY is not set \
         (set it, or remove this setting)"
    );
    assert_eq!(
        without.settings.providers["anthropic"].retry_policy().max_retries,
        3
    );
}

#[test]
fn empty_configuration_has_the_documented_defaults() {
    let loaded = user("");
    assert!(loaded.diagnostics.is_empty() && !loaded.trusted);
    let settings = &loaded.settings;
    assert_eq!(*settings.default_agent(), AgentSettings::default());
    assert_eq!(settings.tools, ToolSettings::default());
    assert_eq!(settings.server.delta_frame_ms.0, Duration::from_millis(16));
    assert_eq!(settings.logging.to_filter_directives(), "warn,agentls=info");
    assert!(settings.providers.values().all(|provider| !provider.configured));

    // The defaults in the schema are the ones in effect.
    let schema = export_json_schema();
    let stated = |path: &str| schema.pointer(path).cloned().unwrap_or_default();
    let (provider, agent) = (
        "/properties/provider/additionalProperties",
        "/properties/agent/additionalProperties",
    );
    let of_provider = |key: &str| stated(&format!("{provider}/properties/{key}/default"));
    let openai = &settings.providers["openai"];
    assert_eq!(
        of_provider("connect_timeout_s"),
        openai.connect_timeout_s.0.as_secs_f64()
    );
    assert_eq!(
        of_provider("max_retry_after_s"),
        openai.max_retry_after_s.0.as_secs_f64()
    );
    assert_eq!(of_provider("backoff_factor"), openai.backoff_factor);
    assert_eq!(
        stated(&format!("{agent}/properties/max_steps/default")),
        settings.default_agent().max_steps
    );
    assert_eq!(
        stated(&format!("{agent}/properties/mode/default")),
        settings.default_agent().mode.name()
    );
    assert_eq!(
        stated("/properties/tool/properties/bash/properties/timeout_s/default"),
        settings.tools.timeout_for("bash").as_secs_f64()
    );
    assert_eq!(
        stated("/properties/logging/properties/level/default"),
        settings.logging.level.name()
    );
    assert_eq!(stated("/properties/server/properties/delta_frame_ms/default"), 16);
}

#[test]
fn later_layers_override_earlier_ones() {
    let agent = |model: &str| format!("[agent.default]\nmodel = '{model}'");
    let (workspace, local) = (agent("workspace"), agent("local"));
    let user = agent("user") + "\n[logging]\nfilter = 'error'";
    let options = Some(json!({"agent": {"default": {"model": "options"}}}));
    let flags = Flags {
        model: Some("flag".to_owned()),
        ..Flags::default()
    };
    let mut layers = TestLayers {
        user: &user,
        workspace: &workspace,
        local: &local,
        options,
        env: &[("AGENTLS_MODEL", "env"), ("AGENTLS_LOG", "debug")],
        flags,
        ..TestLayers::default()
    };
    let mut models = Vec::new();
    for step in 0..6 {
        let loaded = layers.load();
        assert_eq!(lines(&loaded), [""; 0]);
        models.extend(loaded.settings.default_agent().model.clone());
        match step {
            0 => layers.flags = Flags::default(),
            1 => {
                // A level from the environment overrides a filter from a file.
                assert_eq!(
                    loaded.settings.logging.to_filter_directives(),
                    "warn,agentls=debug"
                );
                layers.env = &[];
            }
            2 => layers.options = None,
            3 => layers.local = "",
            _ => layers.workspace = "",
        }
    }
    assert_eq!(models, ["flag", "env", "options", "local", "workspace", "user"]);
}

#[test]
fn broken_address_is_never_replaced_by_the_preset() {
    for text in [
        "[provider.openai]\nbase_url = 7",
        "[provider.openai]\nbase_url = 'nonsense'",
        "[provider.openai]\nbase_url = https://unquoted",
        "[provider.openai]\nbase_url = '${NOT_SET}/v1'",
        "[provider.openai]\nkind = 'nonsense'",
    ] {
        let layers = TestLayers {
            user: text,
            env: &[("OPENAI_API_KEY", "sk-1")],
            ..TestLayers::default()
        };
        let loaded = layers.load();
        assert!(!loaded.diagnostics.is_empty(), "{text}");
        assert!(!loaded.settings.providers.contains_key("openai"), "{text}");
        let choice = select_default(&loaded.settings, &layers.env(), &default_model, &|_, _| None);
        assert!(
            matches!(choice, DefaultChoice::NotConfigured { .. }),
            "{text}: {choice:?}"
        );
        // A later layer repairs it.
        let repaired = TestLayers {
            options: Some(
                json!({"provider": {"openai": {"kind": "openai", "base_url": "http://localhost:1"}}}),
            ),
            ..layers
        };
        assert!(
            repaired.load().settings.providers.contains_key("openai"),
            "{text}"
        );
    }
}

#[test]
fn unreadable_mode_is_never_looser() {
    for (user, workspace, mode) in [
        (
            "[agent.default]\nmode = 'full'",
            "[agent.default]\nmode = 'paln'",
            Mode::Ask,
        ),
        (
            "[agent.default]\nmode = 'plan'",
            "[agent.default]\nmode = 'aks'",
            Mode::Plan,
        ),
        (
            "[agent.default]\nmode = 'full'",
            "[agent.default]\nmode = 3",
            Mode::Ask,
        ),
    ] {
        let loaded = TestLayers {
            user,
            workspace,
            trusted: true,
            ..TestLayers::default()
        }
        .load();
        assert_eq!(loaded.settings.default_agent().mode, mode, "{workspace}");
        assert_eq!(loaded.diagnostics.len(), 1);
    }
}

#[test]
fn trust_decides_what_a_folders_settings_may_do() {
    let workspace = "[agent.default]\nmode = 'autoEdit'\nmodel = 'theirs'\n[provider.anthropic]\nbase_url = 'https://evil.example'\n";
    for (layers, trusted) in [
        (
            TestLayers {
                workspace,
                ..TestLayers::default()
            },
            false,
        ),
        (
            TestLayers {
                local: workspace,
                ..TestLayers::default()
            },
            false,
        ),
        (
            TestLayers {
                workspace,
                trusted: true,
                ..TestLayers::default()
            },
            true,
        ),
        (
            TestLayers {
                workspace,
                user: "trusted = ['/w']",
                ..TestLayers::default()
            },
            true,
        ),
    ] {
        let loaded = layers.load();
        assert_eq!(loaded.trusted, trusted);
        assert_eq!(
            loaded.diagnostics.len(),
            if trusted { 1 } else { 2 },
            "{:?}",
            lines(&loaded)
        );
        let settings = &loaded.settings;
        assert_eq!(settings.default_agent().model.as_deref(), Some("theirs"));
        let mode = if trusted { Mode::AutoEdit } else { Mode::Ask };
        assert_eq!(settings.default_agent().mode, mode);
        // Trust alone redirects no provider that may get a key.
        let url = settings.providers["anthropic"].base_url.as_str();
        assert_eq!(url, "https://api.anthropic.com");
    }
    // The folder cannot make a provider unusable or trust itself either.
    let loaded = TestLayers {
        workspace: "trusted = ['/w']\n[provider.openai]\nbase_url = 3",
        ..TestLayers::default()
    }
    .load();
    assert!(loaded.settings.providers.contains_key("openai") && !loaded.trusted);
    assert_eq!(
        loaded
            .diagnostics
            .iter()
            .map(|problem| problem.line)
            .collect::<Vec<_>>(),
        [1, 3]
    );
}

#[test]
fn options_accept_no_keys_and_survive_any_json() {
    let layers = TestLayers {
        options: Some(json!({"provider": {"openai": {"api_key": "sk-secret-1", "model": "m"}}})),
        ..TestLayers::default()
    };
    let loaded = layers.load();
    assert_eq!(
        lines(&loaded),
        [
            "initializationOptions: error: provider.openai.api_key: keys are not accepted here; ignored \
          (put it in the environment, or name its variable in your own config file)"
        ]
    );
    assert!(loaded.settings.providers["openai"].api_key.is_none());
    assert_eq!(loaded.settings.providers["openai"].model.as_deref(), Some("m"));
    for options in [
        json!([]),
        json!("x"),
        json!(null),
        json!({"agent": null}),
        json!({"deltaFrameMs": 3}),
    ] {
        TestLayers {
            options: Some(options),
            ..TestLayers::default()
        }
        .load();
    }
}

#[test]
fn secrets_are_known_and_never_shown() {
    let text = "[provider.work]\nkind = 'openai'\nbase_url = 'https://u'\napi_key = '${WORK_KEY}'\n\
                [provider.work.headers]\nx-team = '${TEAM_TOKEN}'\n[agent.default]\nmode = '${WORK_KEY}'\n\
                [logging]\nfile = '${HOME}/log'\n[tool.bash]\npass_env = ['GROQ_API_KEY']\n\
                [network]\nproxy = 'http://u:pass-word@p:1'\n";
    let env = [
        ("WORK_KEY", "sk-work-0123456789abcdef"),
        ("TEAM_TOKEN", "tok-456789"),
    ];
    let loaded = TestLayers {
        user: text,
        env: &env,
        ..TestLayers::default()
    }
    .load();
    assert_eq!(
        lines(&loaded),
        [
            "/h/c.toml:8:1: error: agent.default.mode: this value is not one of `plan`, `ask`, `autoEdit`, `full`"
        ]
    );
    let env = Env::from_vars([
        ("GITHUB_TOKEN", "x"),
        ("OTHER", "sk-work-0123456789abcdef and more"),
        ("GIT_CONFIG_VALUE_1", "Authorization: Basic eDp5"),
        ("LANG", "C"),
        ("SSH_AUTH_SOCK", "/run/ssh"),
    ]);
    let names = loaded.settings.secret_env_names(&env);
    assert!(
        [
            "WORK_KEY",
            "TEAM_TOKEN",
            "ANTHROPIC_API_KEY",
            "GITHUB_TOKEN",
            "OTHER",
            "GIT_CONFIG_VALUE_1",
            "GIT_CONFIG_COUNT"
        ]
        .iter()
        .all(|name| names.contains(*name)),
        "{names:?}"
    );
    assert!(
        ["HOME", "GROQ_API_KEY", "LANG", "SSH_AUTH_SOCK"]
            .iter()
            .all(|name| !names.contains(*name))
    );

    let debug_output = format!("{loaded:?}");
    let redactor = Redactor::default();
    redactor.learn_all(&loaded.settings);
    for secret in ["sk-work-0123456789abcdef", "tok-456789", "http://u:pass-word@p:1"] {
        assert!(!debug_output.contains(secret), "{secret} in {debug_output}");
        assert_eq!(redactor.redact_text(secret), "***");
    }
}

#[test]
fn missing_named_key_is_not_replaced() {
    let env = [("OPENAI_API_KEY", "sk-private")];
    let text = "[provider.openai]\napi_key = '${COMPANY_KEY}'";
    let layers = TestLayers {
        user: text,
        env: &env,
        ..TestLayers::default()
    };
    let loaded = layers.load();
    assert!(loaded.settings.providers["openai"].api_key.is_none());
    assert_eq!(
        select_default(&loaded.settings, &layers.env(), &default_model, &|_, _| None),
        DefaultChoice::ProbeOllama { model: None }
    );
}

#[test]
fn white_space_around_a_key_does_not_count() {
    let env = [
        ("KEY", "sk-1 \r\n"),
        ("OPENAI_API_KEY", "\tsk-2\n"),
        ("BLANK", "\n"),
    ];
    let text = "[provider.anthropic]\napi_key = '${KEY}'\n[provider.gemini]\napi_key = '${BLANK}'\n";
    let loaded = TestLayers {
        user: text,
        env: &env,
        ..TestLayers::default()
    }
    .load();
    let key = |name: &str| {
        let provider = loaded.settings.providers.get(name);
        let key = provider.and_then(|provider| provider.api_key.as_ref());
        key.map(|key| key.expose_secret().to_owned())
    };
    let keys = ["anthropic", "openai", "gemini"].map(key);
    assert_eq!(keys, [Some("sk-1".to_owned()), Some("sk-2".to_owned()), None]);
    assert_eq!(lines(&loaded), [""; 0]);
}

#[test]
fn user_and_root_files_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join(".agentls")).unwrap();
    let env = Env::from_vars([("HOME", dir.path()), ("XDG_CONFIG_HOME", dir.path())]);
    let source = |config: Option<&Path>| ConfigSource {
        places: ConfigPaths::from_env(&env, config),
        env: env.clone(),
        ..ConfigSource::default()
    };
    let trusted = Trust {
        folders: BTreeMap::from([(root.clone(), None)]),
        ..Trust::default()
    };
    assert_eq!(lines(&source(None).load_settings(Some(&root), &trusted)), [""; 0]);

    let missing = source(Some(Path::new("/nonexistent/c.toml"))).load_settings(None, &trusted);
    assert!(
        lines(&missing)[0].starts_with("/nonexistent/c.toml:1:1: error: cannot be read"),
        "{missing:?}"
    );

    std::fs::write(
        root.join(".agentls/config.toml"),
        "[agent.default]\nmode = 'plan'\nmax_steps = 3",
    )
    .unwrap();
    let outside = dir.path().join("outside.toml");
    std::fs::write(&outside, "[agent.default]\nmax_steps = 7\n").unwrap();
    std::os::unix::fs::symlink(&outside, root.join(".agentls/config.local.toml")).unwrap();
    let loaded = source(None).load_settings(Some(&root), &trusted);
    assert_eq!(loaded.settings.default_agent().max_steps, 3);
    assert!(
        lines(&loaded)[0].contains("a link to a file outside the workspace folder"),
        "{:?}",
        lines(&loaded)
    );
    std::fs::remove_file(root.join(".agentls/config.local.toml")).unwrap();
    std::fs::create_dir(root.join(".agentls/config.local.toml")).unwrap();
    let loaded = source(None).load_settings(Some(&root), &trusted);
    assert_eq!(loaded.settings.default_agent().max_steps, 3);
    assert!(
        lines(&loaded)[0].ends_with("cannot be read: it is a folder; only regular files are read"),
        "{:?}",
        lines(&loaded)
    );
    assert_eq!(
        source(None)
            .load_settings(None, &trusted)
            .settings
            .default_agent()
            .max_steps,
        50
    );

    let big = dir.path().join("big.toml");
    std::fs::write(&big, vec![b'\n'; 1024 * 1024 + 1]).unwrap();
    assert!(
        lines(&source(Some(&big)).load_settings(None, &trusted))[0].ends_with("at most 1048576 are read")
    );
}

/// Asserts that diagnostics of files always have a location.
fn assert_located(loaded: &LoadedConfig) {
    for problem in &loaded.diagnostics {
        assert!(!problem.file.is_empty() && !problem.message.is_empty());
        assert!(!problem.message.starts_with("internal"), "{problem}");
        if problem.file.starts_with('/') {
            assert!(problem.line > 0 && problem.column > 0, "{problem:?}");
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_break_loading(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        check_bytes(bytes);
    }

    #[test]
    fn mutated_file_never_breaks_loading(at in 0..EXAMPLE.len(), len in 0..40usize, new in "[\\PC\n\"'\\[\\]=.${}#]{0,6}") {
        let mut bytes = EXAMPLE.as_bytes().to_vec();
        let end = (at + len).min(bytes.len());
        bytes.splice(at..end, new.bytes());
        check_bytes(bytes);
    }

    #[test]
    fn arbitrary_values_never_break_loading(values in proptest::collection::vec((0..KEYS.len(), 0..VALUES.len()), 0..12)) {
        let text: String = values.iter().map(|(key, value)| format!("{} = {}\n", KEYS[*key], VALUES[*value])).collect();
        check_bytes(text.into_bytes());
    }
}

const KEYS: [&str; 24] = [
    "provider.openai.kind",
    "provider.openai.base_url",
    "provider.x.api_key",
    "provider.openai.headers.a",
    "provider.openai.max_retries",
    "provider.openai.backoff_factor",
    "provider.openai.initial_backoff_ms",
    "provider.openai.fallback",
    "provider",
    "provider.openai",
    "agent.default.mode",
    "agent.default.max_steps",
    "agent.default.max_iterations",
    "agent.default.max_session_cost",
    "model.m.input",
    "model.m.context_window",
    "approvals.allow",
    "approvals.timeout_s",
    "tool.bash.timeout_s",
    "tool.bash.pass_env",
    "logging.filter",
    "logging.level",
    "trusted",
    "network.proxy",
];

const VALUES: [&str; 20] = [
    "1",
    "-1",
    "0",
    "1.5",
    "nan",
    "-inf",
    "4294967296",
    "9223372036854775807",
    "99999999999999999999",
    "true",
    "''",
    "'openai'",
    "'${X}'",
    "['a', 1, {b = 2}]",
    "{}",
    "{a = {b = []}}",
    "2024-01-01",
    "'/w'",
    "1e308",
    "[[], ['x']]",
];

fn check_bytes(bytes: Vec<u8>) {
    let env = Env::from_vars([("HOME", "/h")]);
    let file = |path: &str| {
        Some(FileText {
            path: path.into(),
            bytes: Ok(bytes.clone()),
        })
    };
    let options = serde_json::from_slice::<Value>(&bytes).ok();
    for folders in [BTreeMap::new(), BTreeMap::from([(PathBuf::from("/w"), None)])] {
        let trust = Trust {
            folders,
            ..Trust::default()
        };
        let loaded = load_settings(&LoadInputs {
            env: &env,
            places: None,
            keys: &LoginKeys::default(),
            user: file("/h/c.toml"),
            root: Some(Path::new("/w")),
            workspace: file("/w/c.toml"),
            local: file("/w/l.toml"),
            foreign_mcp: file("/w/.mcp.json").into_iter().collect(),
            options: options.as_ref(),
            editor: options.as_ref(),
            flags: &Flags::default(),
            canonicalize: Path::to_path_buf,
            trust: &trust,
            tools: &[],
        });
        assert_located(&loaded);
        select_default(&loaded.settings, &env, &default_model, &|_, _| None);
    }
}

#[test]
fn only_the_accepted_fingerprint_is_trusted() {
    let env = Env::from_vars([("HOME", "/h")]);
    let load = |text: &str, accepted: Option<&str>| {
        let trust = Trust {
            folders: BTreeMap::from([(PathBuf::from("/w"), accepted.map(str::to_owned))]),
            ..Trust::default()
        };
        let inputs = LoadInputs {
            env: &env,
            places: None,
            keys: &LoginKeys::default(),
            user: None,
            root: Some(Path::new("/w")),
            workspace: Some(FileText {
                path: "/w/c.toml".into(),
                bytes: Ok(text.as_bytes().to_vec()),
            }),
            local: None,
            foreign_mcp: Vec::new(),
            options: None,
            editor: None,
            flags: &Flags::default(),
            canonicalize: Path::to_path_buf,
            trust: &trust,
            tools: &[],
        };
        (
            load_settings(&inputs).trusted,
            describe_folder(&inputs).fingerprint,
        )
    };
    let hook = "[hook.x]\non = 'stop'\ncommand = 'x'";
    // A decision of an older version accepted everything.
    let (is_trusted, accepted) = load(hook, None);
    assert!(is_trusted);
    for (text, is_trusted) in [
        (hook.to_owned(), true),
        (format!("# moved\n{hook}\n[sandbox]\nread_deny = ['k']"), true),
        (hook.replace("'x'", "'y'"), false),
        (format!("{hook}\n[hook.y]\non = 'stop'\ncommand = 'x'"), false),
        (format!("{hook}\n[approvals]\nallow = ['bash']"), false),
        (format!("{hook}\n[agent.default]\nmode = 'full'"), false),
        (String::new(), false),
    ] {
        assert_eq!(load(&text, Some(&accepted)).0, is_trusted, "{text}");
    }
}
