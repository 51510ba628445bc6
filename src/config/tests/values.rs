//! Tests of single settings: their values, the reports about bad ones, and the selection of a provider.

use std::path::Path;
use std::time::Duration;

use secrecy::ExposeSecret;

use super::*;
use crate::domain::Mode;

#[test]
fn bad_value_costs_only_itself() {
    for (text, want) in [
        (
            "[provider.x]\nbase_url = 'u'\nmodel = 'm'",
            "/h/c.toml:1:11: error: provider.x: has no `kind`, and its name is not a known provider \
             (add kind = \"openai\" or \"anthropic\")",
        ),
        (
            "[provider.antropic]\nmodel = 'm'",
            "/h/c.toml:1:11: error: provider.antropic: has no `kind`, and its name is not a known provider \
             (did you mean `anthropic`? else add kind = \"openai\" or \"anthropic\")",
        ),
        (
            "[provider.x]\nkind = 'openai'",
            "/h/c.toml:1:11: error: provider.x: needs a `base_url`",
        ),
        (
            "[provider.openai]\nbase_url = 'api.openai.com'",
            "/h/c.toml:2:1: error: provider.openai.base_url: must be an address such as https://llm.example.com/v1",
        ),
        (
            "[provider.s]\nkind = 'script'",
            "/h/c.toml:1:11: error: provider.s: a provider of kind `script` needs a `cassette`",
        ),
        (
            "[provider.openai.headers]\n'a b' = 'c'",
            "/h/c.toml:2:1: error: provider.openai.headers.a b: is not an HTTP header; ignored",
        ),
        (
            "[provider.openai]\nfallback = 'antropic'",
            "/h/c.toml:2:1: error: provider.openai.fallback: unknown provider `antropic` \
             (did you mean `anthropic`?)",
        ),
        (
            "[provider.openai]\nfallback = 'openai'",
            "/h/c.toml:2:1: error: provider.openai.fallback: is a cycle: openai → openai",
        ),
        (
            "[agent.a]\nprovider = 'opnai'",
            "/h/c.toml:2:1: error: agent.a.provider: unknown provider (did you mean `openai`?)",
        ),
        (
            "[agent.a]\nmodel = 'openai/'",
            "/h/c.toml:2:1: error: agent.a.model: names no model; write openai/MODEL, or openai for its default model",
        ),
        (
            "[model.m]\ninput = 1.0",
            "/h/c.toml:1:8: error: model.m: a price needs both `input` and `output`; ignored",
        ),
        (
            "[network]\nproxy = 'proxy'",
            "/h/c.toml:2:1: error: network.proxy: must be an address such as http://proxy.example.com:3128",
        ),
        (
            "[logging]\nfilter = 'a=b=c'",
            "/h/c.toml:2:1: error: logging.filter: is not a filter; using `level` \
             (as in `info,agentls::provider=debug`)",
        ),
        (
            "trusted = ['x']",
            "/h/c.toml:1:12: error: trusted: is not an absolute path; ignored",
        ),
        (
            "[tool.bsh]\ntimeout_s = 1",
            "/h/c.toml:1:7: error: tool.bsh: unknown tool (did you mean `bash`?)",
        ),
    ] {
        let text = format!("{text}\n[server]\ndelta_frame_ms = 7\n");
        let loaded = TestLayers {
            user: &text,
            tools: &["bash", "grep"],
            ..TestLayers::default()
        }
        .load();
        assert_eq!(lines(&loaded), [want], "{text}");
        assert_eq!(
            loaded.settings.server.delta_frame_ms.0,
            Duration::from_millis(7),
            "{text}"
        );
    }
}

#[test]
fn fallback_cycle_is_reported_and_broken() {
    let loaded = user(
        "[provider.anthropic]\nfallback = ['openai']\n[provider.openai]\nfallback = ['openrouter', 'groq']\n\
         [provider.openrouter]\nfallback = 'anthropic'\n",
    );
    assert_eq!(
        lines(&loaded),
        ["/h/c.toml:6:1: error: provider.openrouter.fallback: is a cycle: \
             openrouter → anthropic → openai → openrouter"]
    );
    let route = |name: &str| loaded.settings.providers[name].fallback.0.clone();
    assert_eq!(
        (route("openai"), route("openrouter")),
        (vec!["openrouter".into(), "groq".into()], vec![])
    );
}

#[test]
fn fallback_chain_of_three_presets_resolves() {
    let loaded = user(
        "[provider.anthropic]\napi_key = 'a'\nfallback = 'openrouter'\nfallback_model = 'small'\n\
         [provider.openrouter]\napi_key = 'b'\nfallback = 'eachlabs'\ncircuit_cooldown_s = 0.5\n\
         [provider.eachlabs]\napi_key = 'c'\nmodel = 'm'\n",
    );
    assert_eq!(lines(&loaded), [""; 0]);
    let of = |name: &str| {
        let provider = &loaded.settings.providers[name];
        (
            provider.kind,
            provider.base_url.clone(),
            provider.fallback.0.clone(),
            provider.fallback_model.clone(),
            provider.circuit_cooldown_s.0.as_millis(),
        )
    };
    let url = str::to_owned;
    assert_eq!(
        ["anthropic", "openrouter", "eachlabs"].map(of),
        [
            (
                ApiKind::Anthropic,
                url("https://api.anthropic.com"),
                vec!["openrouter".into()],
                Some("small".into()),
                30_000
            ),
            (
                ApiKind::OpenAi,
                url("https://openrouter.ai/api/v1"),
                vec!["eachlabs".into()],
                None,
                500
            ),
            (
                ApiKind::OpenAi,
                url("https://api.eachlabs.ai/v1"),
                vec![],
                None,
                30_000
            ),
        ]
    );
}

#[test]
fn provider_is_selected_by_configuration_then_key() {
    let configured = |provider: &str, model: Option<&str>| DefaultChoice::Configured {
        provider: provider.to_owned(),
        model: model.map(str::to_owned),
    };
    let from_env = |provider: &str, model: &str, variable: &str| DefaultChoice::ByKey {
        provider: provider.to_owned(),
        model: model.to_owned(),
        reason: format!("using {provider} with {model}, because {variable} is set"),
    };
    let not = |reason: &str| DefaultChoice::NotConfigured {
        reason: reason.to_owned(),
    };
    let all_keys: &[_] = &[
        ("OPENROUTER_API_KEY", "c"),
        ("OPENAI_API_KEY", "b"),
        ("ANTHROPIC_API_KEY", "a"),
    ];
    let script = "[provider.demo]\nkind = 'script'\ncassette = 'x'\n";
    type Case<'a> = (String, &'a [(&'a str, &'a str)], DefaultChoice);
    let cases: Vec<Case<'_>> = vec![
        (
            String::new(),
            all_keys,
            from_env("anthropic", "anthropics-usual", "ANTHROPIC_API_KEY"),
        ),
        (
            String::new(),
            &all_keys[..2],
            from_env("openai", "openais-usual", "OPENAI_API_KEY"),
        ),
        (
            String::new(),
            &all_keys[..1],
            from_env("openrouter", "openrouters-usual", "OPENROUTER_API_KEY"),
        ),
        (
            String::new(),
            &[("OPENAI_API_KEY", "")],
            DefaultChoice::ProbeOllama { model: None },
        ),
        (
            String::new(),
            &[("GROQ_API_KEY", "x")],
            DefaultChoice::ProbeOllama { model: None },
        ),
        (
            "[agent.default]\nmodel = 'm'".into(),
            &[],
            DefaultChoice::ProbeOllama {
                model: Some("m".into()),
            },
        ),
        (
            "[agent.default]\nprovider = 'ollama'".into(),
            all_keys,
            configured("ollama", None),
        ),
        (
            "[provider.ollama]\nmodel = 'q'".into(),
            all_keys,
            configured("ollama", Some("q")),
        ),
        (
            "[provider.groq]\nmodel = 'q'".into(),
            &[("GROQ_API_KEY", "x")],
            configured("groq", Some("q")),
        ),
        (
            "[provider.groq]\nmodel = 'q'".into(),
            &[],
            DefaultChoice::ProbeOllama { model: None },
        ),
        (
            "[provider.work]\nkind = 'openai'\nbase_url = 'https://u'\n[provider.openai]\napi_key = 'k'"
                .into(),
            all_keys,
            configured("openai", Some("openais-usual")),
        ),
        (script.into(), &[], DefaultChoice::ProbeOllama { model: None }),
        (
            format!("{script}[agent.default]\nprovider = 'demo'"),
            all_keys,
            configured("demo", None),
        ),
        (
            "[agent.default]\nprovider = 'nope'".into(),
            all_keys,
            not("the provider `nope` is not configured"),
        ),
        (
            "[provider.x]\nkind = 'openai'\n[agent.default]\nprovider = 'x'".into(),
            all_keys,
            not("the provider `x` cannot be used: it has no `base_url`"),
        ),
    ];
    for (text, env, want) in cases {
        let layers = TestLayers {
            user: &text,
            env,
            ..TestLayers::default()
        };
        assert_eq!(
            select_default(
                &layers.load().settings,
                &layers.env(),
                &super::default_model,
                &|_, _| None
            ),
            want,
            "{text}"
        );
    }
}

/// What a few providers have. OpenRouter's list is known, the others' is not.
fn has_model(provider: &str, model: &str) -> Option<bool> {
    const AT_OPENROUTER: [&str; 3] = ["openrouter/auto", "openai/gpt", "work/other"];
    (provider == "openrouter").then(|| AT_OPENROUTER.contains(&model))
}

/// Selects with two providers of one's own and the presets of the keys in `env`.
fn select_named(agent: &str, env: &[(&str, &str)], flags: [Option<&str>; 2], folder: &str) -> String {
    let text = format!(
        "[provider.work]\nkind = 'openai'\nbase_url = 'https://u/v1'\nmodel = 'work/usual'\n\
         [provider.second]\nkind = 'openai'\nbase_url = 'https://v/v1'\nmodel = 'openai/gpt'\n\
         [provider.broken]\nkind = 'openai'\nbase_url = 7\n{agent}"
    );
    let layers = TestLayers {
        user: &text,
        workspace: folder,
        env,
        flags: Flags {
            provider: flags[0].map(str::to_owned),
            model: flags[1].map(str::to_owned),
            ..Flags::default()
        },
        ..TestLayers::default()
    };
    let loaded = layers.load();
    let choice = select_default(&loaded.settings, &layers.env(), &super::default_model, &has_model);
    match choice {
        DefaultChoice::Configured { provider, model } => format!("{provider}: {}", model.unwrap_or_default()),
        DefaultChoice::NotConfigured { reason } => reason,
        other => format!("{other:?}"),
    }
}

#[test]
fn first_part_of_a_model_name_selects_its_provider() {
    let second = "[agent.default]\nprovider = 'second'\n";
    let keys: &[(&str, &str)] = &[("OPENAI_API_KEY", "o"), ("OPENROUTER_API_KEY", "r")];
    for (agent, env, flags, expected) in [
        ("", &[][..], [None, Some("work/z")], "work: z"),
        ("", &[], [None, Some("second/z")], "second: z"),
        ("", &[], [None, Some("second/a/z")], "second: a/z"),
        ("", &[], [None, Some("work")], "work: usual"),
        ("", &[], [None, Some("second")], "second: openai/gpt"),
        ("", &[("AGENTLS_MODEL", "work/z")], [None, None], "work: z"),
        (
            "[agent.default]\nmodel = 'work/z'\n",
            &[],
            [None, None],
            "work: z",
        ),
        // A prefix overrides the provider of a lower layer.
        (second, &[], [None, Some("work/z")], "work: z"),
        (second, &[("AGENTLS_MODEL", "work/z")], [None, None], "work: z"),
        (
            second,
            &[("AGENTLS_PROVIDER", "second")],
            [None, Some("work/z")],
            "work: z",
        ),
        (second, keys, [None, Some("openai/gpt")], "openai: gpt"),
        (second, &[], [None, Some("z")], "second: z"),
        // A vendor that is not set up is part of the name.
        (second, &[], [None, Some("openai/gpt")], "second: openai/gpt"),
        (second, &[], [None, Some("org/z")], "second: org/z"),
        // A provider that is stated with the model may have a model of that name, such as Groq's `groq/compound`.
        ("", &[], [Some("work"), Some("work/z")], "work: work/z"),
        (
            "[agent.default]\nprovider = 'work'\nmodel = 'work/z'\n",
            &[],
            [None, None],
            "work: work/z",
        ),
        ("", &[], [Some("work"), Some("z")], "work: z"),
        (
            "",
            keys,
            [Some("openrouter"), Some("openai/gpt")],
            "openrouter: openai/gpt",
        ),
        (
            "",
            keys,
            [Some("openrouter"), Some("work/other")],
            "openrouter: work/other",
        ),
        (
            "",
            keys,
            [Some("openrouter"), Some("openrouter/auto")],
            "openrouter: openrouter/auto",
        ),
        (
            "",
            keys,
            [None, Some("openrouter/auto")],
            "openrouter: openrouter/auto",
        ),
        (
            "",
            keys,
            [None, Some("openrouter/openrouter/auto")],
            "openrouter: openrouter/auto",
        ),
        (
            "",
            keys,
            [None, Some("openrouter/openai/gpt")],
            "openrouter: openai/gpt",
        ),
        ("", &[], [None, Some("ollama/qwen3")], "ollama: qwen3"),
    ] {
        assert_eq!(select_named(agent, env, flags, ""), expected, "{agent}{flags:?}");
    }
    let differs = "the model `work/z` names the provider `work`, but the provider is set to `second`: leave one out, or \
                   write `second/work/z`";
    assert_eq!(
        select_named("", &[], [Some("second"), Some("work/z")], ""),
        differs
    );
    let in_file = "[agent.default]\nprovider = 'second'\nmodel = 'work/z'\n";
    assert_eq!(select_named(in_file, &[], [None, None], ""), differs);
    let broken = select_named(second, &[], [None, Some("broken/z")], "");
    assert!(
        broken.starts_with("the provider `broken` cannot be used"),
        "{broken}"
    );
}

#[test]
fn untrusted_folder_selects_no_provider_by_a_model_name() {
    for (folder, expected) in [
        ("work/z", "second: work/z"),
        ("work", "second: work"),
        ("z", "second: z"),
    ] {
        let folder = format!("[agent.default]\nmodel = '{folder}'\n");
        let own = "[agent.default]\nprovider = 'second'\n";
        assert_eq!(select_named(own, &[], [None, None], &folder), expected);
    }
}

#[test]
fn named_agent_inherits_what_its_model_may_select() {
    let loaded = user(
        "[provider.work]\nkind = 'openai'\nbase_url = 'https://u/v1'\n[agent.default]\nprovider = 'anthropic'\n\
         model = 'claude'\n[agent.a]\nmodel = 'work/z'\n[agent.b]\nmode = 'plan'",
    );
    let select = |name: &str| {
        let agent = loaded.settings.find_agent(name).unwrap();
        let (env, default) = (Env::default(), super::default_model);
        match crate::config::select_for(&loaded.settings, agent, &env, &default, &has_model) {
            DefaultChoice::Configured { provider, model } => (provider, model.unwrap()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(select("a"), ("work".to_owned(), "z".to_owned()));
    assert_eq!(select("b"), ("anthropic".to_owned(), "claude".to_owned()));
}

#[test]
fn model_of_the_previous_provider_is_dropped() {
    let loaded = TestLayers {
        user: "[agent.default]\nprovider = 'anthropic'\nmodel = 'claude'\n[agent.b]\nprovider = 'groq'\n[agent.c]\nmode = 'plan'",
        env: &[("AGENTLS_PROVIDER", "ollama")],
        ..TestLayers::default()
    }
    .load();
    let model = |name: &str| loaded.settings.agents[name].model.clone();
    assert_eq!((model("default"), model("b")), (None, None));
    let user_only =
        user("[agent.default]\nprovider = 'anthropic'\nmodel = 'claude'\n[agent.c]\nmode = 'plan'");
    let c = user_only.settings.find_agent("c").unwrap();
    assert_eq!(
        (c.model.as_deref(), c.mode, c.provider.as_deref()),
        (Some("claude"), Mode::Plan, Some("anthropic"))
    );
}

#[test]
fn openai_uses_the_responses_api_at_its_own_address() {
    for (table, kind) in [
        ("api_key = 'sk-1'", ApiKind::Responses),
        (
            "api_key = 'sk-1'\nbase_url = 'https://api.openai.com/v1'",
            ApiKind::Responses,
        ),
        (
            "api_key = 'sk-1'\nbase_url = 'https://llm.example.com/v1'",
            ApiKind::OpenAi,
        ),
        ("api_key = 'sk-1'\nkind = 'openai'", ApiKind::OpenAi),
        (
            "kind = 'openai-responses'\nbase_url = 'https://llm.example.com/v1'",
            ApiKind::Responses,
        ),
    ] {
        let loaded = user(&format!("[provider.openai]\n{table}"));
        assert_eq!(lines(&loaded), [""; 0], "{table}");
        let openai = &loaded.settings.providers["openai"];
        assert_eq!(openai.kind, kind, "{table}");
        let is_own = table.contains("llm.example.com");
        let address = if is_own {
            "https://llm.example.com/v1"
        } else {
            "https://api.openai.com/v1"
        };
        assert_eq!(openai.base_url.trim_end_matches('/'), address, "{table}");
    }
}

#[test]
fn every_number_of_a_provider_is_applied() {
    let loaded = user(
        "[provider.ollama]\nretry = 'persistent'\nmax_retries = 1\nbackoff_factor = 3\nmax_backoff_ms = 9\nbackoff_jitter = 0\nmax_timeout_retries = 4\n\
         max_retry_after_s = 0.5\nconnect_timeout_s = 0.25\nevent_gap_timeout_s = 2\n\
         [provider.ollama.headers]\nx-a = 'b'\n\
         [provider.s]\nkind = 'script'\ncassette = 'tapes/a.json'\nrecord = 'tapes/b.jsonl'\n\
         [network]\nca_file = '~/ca.pem'\nno_proxy = 'a,b'\n[model.q]\ninput = 1\noutput = 2\ncontext_window = 5\n\
         [tool.default]\ntimeout_s = 3\n[tool.grep]\ntimeout_s = 4\n[tool.bash]\non_cancel = 'finish'\nfinish_timeout_s = 7\n\
         [approvals]\ntimeout_s = 60\n[agent.default]\nreasoning_effort = 'high'\nsystem_prompt = 'be brief'\n\
         compaction_threshold = 0.5\ncompaction_limit = 90000\noutput_reserve = 20000\n\
         [agent.fast]\nreasoning_effort = 'off'\n",
    );
    assert_eq!(lines(&loaded), [""; 0]);
    let settings = &loaded.settings;
    let ollama = &settings.providers["ollama"];
    let retry = ollama.retry_policy();
    assert_eq!(
        (ollama.retry, retry.persists, retry.patient),
        (RetryProfile::Persistent, true, false)
    );
    assert_eq!((retry.max_retries, retry.backoff.factor), (1, 3.0));
    assert_eq!(retry.backoff.initial, Duration::from_millis(500));
    assert_eq!(retry.backoff.max, Duration::from_millis(9));
    assert_eq!((retry.backoff.jitter, retry.max_timeout_retries), (0.0, 4));
    assert_eq!(retry.max_retry_after, Duration::from_millis(500));
    assert_eq!(ollama.connect_timeout_s.0, Duration::from_millis(250));
    // What applies without a configured limit is tested in `provider::registry`.
    assert_eq!(ollama.first_event_timeout_s, None);
    assert_eq!(ollama.event_gap_timeout_s, Some(Seconds::from(2.0)));
    assert_eq!(ollama.headers["x-a"].expose_secret(), "b");
    assert_eq!(
        settings.providers["s"].cassette.as_deref(),
        Some(Path::new("/h/tapes/a.json"))
    );
    assert_eq!(
        settings.providers["s"].record.as_deref(),
        Some(Path::new("/h/tapes/b.jsonl"))
    );
    assert_eq!(settings.network.ca_file.as_deref(), Some(Path::new("/h/ca.pem")));
    assert_eq!(
        settings.models["q"].price().map(|price| price.cache_read),
        Some(1.0)
    );
    assert_eq!(settings.models["q"].context_window, Some(5));
    assert_eq!(settings.tools.timeout_for("bash"), Duration::from_secs(3));
    assert_eq!(settings.tools.timeout_for("grep"), Duration::from_secs(4));
    let bash = &settings.tools.bash;
    assert_eq!(
        (bash.on_cancel, bash.finish_timeout_s),
        (OnCancel::Finish, Seconds::from(7.0))
    );
    assert_eq!(settings.approvals.timeout_s, Some(Seconds::from(60.0)));
    assert_eq!(settings.default_agent().reasoning_effort, ReasoningEffort::High);
    assert_eq!(settings.agents["fast"].reasoning_effort, ReasoningEffort::Off);
    let fast = &settings.agents["fast"];
    assert_eq!(fast.system_prompt.as_deref(), Some("be brief"));
    assert_eq!((fast.compaction_threshold, fast.compaction_limit), (0.5, 90_000));
    assert_eq!(fast.output_reserve, 20_000);
}

#[test]
fn out_of_range_numbers_are_refused_with_their_location() {
    for line in [
        "[provider.ollama]\nmax_timeout_retries = 101",
        "[provider.ollama]\nbackoff_jitter = 1.5",
        "[provider.ollama]\nbackoff_jitter = -0.1",
        "[tool.bash]\nfinish_timeout_s = 0.5",
        "[tool.bash]\nfinish_timeout_s = 601",
        "[agent.default]\ncompaction_threshold = 0.1",
        "[agent.default]\ncompaction_threshold = 75",
        "[agent.default]\ncompaction_limit = 9999",
        "[agent.default]\noutput_reserve = 10",
        "[agent.default]\noutput_reserve = '8k'",
    ] {
        let loaded = user(line);
        let key = line.split(['\n', ' ']).nth(1).unwrap();
        assert!(
            matches!(&lines(&loaded)[..], [one] if one.contains(key) && one.contains(":2:")),
            "{line}: {:?}",
            lines(&loaded)
        );
        assert_eq!(
            loaded.settings.default_agent(),
            user("").settings.default_agent(),
            "{line}"
        );
    }
}

#[test]
fn configured_proxy_overrides_the_environment() {
    let env = [
        ("HTTPS_PROXY", "http://env:1"),
        ("HTTP_PROXY", "http://not:1"),
        ("NO_PROXY", "a"),
    ];
    let proxy_settings = |settings: &Settings| {
        let url = |proxy: &Option<crate::config::ProxyAddress>| {
            proxy.as_ref().map(|proxy| proxy.url.expose_secret().to_owned())
        };
        (
            url(&settings.network.https_proxy),
            url(&settings.network.http_proxy),
            settings.network.no_proxy.clone(),
        )
    };
    // A variable may leave out the scheme.
    for https_proxy in ["http://env:1", "env:1"] {
        let from_env = TestLayers {
            env: &[("HTTPS_PROXY", https_proxy), env[1], env[2]],
            ..TestLayers::default()
        }
        .load();
        assert_eq!(
            proxy_settings(&from_env.settings),
            (Some("http://env:1".into()), None, Some("a".into()))
        );
    }
    let both = TestLayers {
        user: "[network]\nproxy = 'http://cfg:1'",
        env: &env,
        ..TestLayers::default()
    }
    .load();
    let cfg = Some("http://cfg:1".to_owned());
    assert_eq!(
        proxy_settings(&both.settings),
        (cfg.clone(), cfg, Some("a".into()))
    );
}

#[test]
fn google_speaks_its_own_api_at_its_own_address() {
    for (table, kind, address) in [
        (
            "",
            ApiKind::Gemini,
            "https://generativelanguage.googleapis.com/v1beta",
        ),
        (
            "kind = 'openai'",
            ApiKind::OpenAi,
            "https://generativelanguage.googleapis.com/v1beta/openai",
        ),
        (
            "base_url = 'https://generativelanguage.googleapis.com/v1beta/openai/'",
            ApiKind::OpenAi,
            "https://generativelanguage.googleapis.com/v1beta/openai",
        ),
        (
            "base_url = 'https://llm.example.com/v1'",
            ApiKind::OpenAi,
            "https://llm.example.com/v1",
        ),
        (
            "kind = 'gemini'\nbase_url = 'https://llm.example.com/v1beta'",
            ApiKind::Gemini,
            "https://llm.example.com/v1beta",
        ),
    ] {
        let loaded = user(&format!("[provider.google]\napi_key = 'key-of-google'\n{table}"));
        assert_eq!(lines(&loaded), [""; 0], "{table}");
        let google = &loaded.settings.providers["google"];
        assert_eq!(
            (google.kind, google.base_url.trim_end_matches('/')),
            (kind, address),
            "{table}"
        );
    }
}

#[test]
fn ollama_speaks_its_own_api_except_at_the_address_of_the_other() {
    for (table, kind, address) in [
        ("", ApiKind::Ollama, "http://127.0.0.1:11434"),
        ("kind = 'openai'", ApiKind::OpenAi, "http://127.0.0.1:11434/v1"),
        (
            "base_url = 'http://10.0.0.9:11434/v1'",
            ApiKind::OpenAi,
            "http://10.0.0.9:11434/v1",
        ),
        (
            "base_url = 'http://10.0.0.9:11434'",
            ApiKind::Ollama,
            "http://10.0.0.9:11434",
        ),
    ] {
        let loaded = user(&format!("[provider.ollama]\n{table}"));
        assert_eq!(lines(&loaded), [""; 0], "{table}");
        let ollama = &loaded.settings.providers["ollama"];
        assert_eq!(
            (ollama.kind, ollama.base_url.trim_end_matches('/')),
            (kind, address),
            "{table}"
        );
    }
}

#[test]
fn variables_in_request_bodies_are_hidden_in_logs_and_still_sent() {
    let text = "[provider.openai]\nextra_body = { user = '${GATEWAY_USER}', models = ['other-model'] }\n\
                [model.m]\nextra_body = { options = { team = ['t-${GATEWAY_TEAM}'] } }";
    let loaded = TestLayers {
        user: text,
        env: &[
            ("OPENAI_API_KEY", "k"),
            ("GATEWAY_USER", "user-0123456789abcdef"),
            ("GATEWAY_TEAM", "team-0123456789abcdef"),
        ],
        ..TestLayers::default()
    }
    .load();
    let redactor = Redactor::from_settings(&loaded.settings);
    let body = "user-0123456789abcdef t-team-0123456789abcdef other-model";
    assert_eq!(redactor.redact_text(body), "*** *** other-model");
    assert_eq!(redactor.redact_content(body), None);
}

#[test]
fn fields_that_agentls_always_sets_cannot_be_configured() {
    let text = "[provider.openai]\ntemperature = 0.2\n\
                extra_body = { top_k = 20, messages = [], options = { num_ctx = 9, seed = 7 } }\n\
                [model.m]\nextra_body = { max_tokens = 5, stop = ['x'] }";
    let loaded = TestLayers {
        user: text,
        env: &[("OPENAI_API_KEY", "k")],
        ..TestLayers::default()
    }
    .load();
    let provider = &loaded.settings.providers["openai"];
    assert_eq!(provider.temperature, Some(0.2));
    let body = serde_json::Value::Object(provider.extra_body.clone());
    assert_eq!(body, serde_json::json!({"top_k": 20, "options": {"seed": 7}}));
    let body = serde_json::Value::Object(loaded.settings.models["m"].extra_body.clone());
    assert_eq!(body, serde_json::json!({"stop": ["x"]}));
    let problems = lines(&loaded);
    for field in ["messages", "options.num_ctx", "max_tokens"] {
        let message = format!("agentls always sets `{field}` itself; ignored");
        assert!(
            problems.iter().any(|problem| problem.contains(&message)),
            "{problems:?}"
        );
    }
}
