//! Keys from `agentls login`: what they give, and what they do not override.

use super::*;

#[test]
fn a_login_gives_a_provider_its_key_unless_the_file_or_a_variable_does() {
    let logins: &[_] = &[("groq", "login-g"), ("anthropic", "login-a"), ("work", "login-w")];
    let key = |user: &str, env: &[(&str, &str)], provider: &str| {
        let layers = TestLayers {
            user,
            env,
            logins,
            ..TestLayers::default()
        };
        let settings = layers.load().settings;
        let provider = settings.providers.get(provider)?;
        let key = provider.api_key.as_ref()?.expose_secret().to_owned();
        Some((key, provider.is_login_key))
    };
    let found = |key: &str, is_login_key| Some((key.to_owned(), is_login_key));
    assert_eq!(key("", &[], "groq"), found("login-g", true));
    assert_eq!(key("", &[("GROQ_API_KEY", "var")], "groq"), found("var", false));
    let file =
        "[provider.groq]\napi_key = 'file'\n[provider.work]\nkind = 'openai'\nbase_url = 'https://h/v1'";
    assert_eq!(key(file, &[], "groq"), found("file", false));
    assert_eq!(key(file, &[], "work"), found("login-w", true));
    // Never another account's key in place of one that is missing.
    let missing = "[provider.groq]\napi_key = '${NOT_SET}'";
    assert_eq!(key(missing, &[], "groq"), None);
}

#[test]
fn the_keys_of_all_logins_are_secret_also_those_without_effect() {
    let layers = TestLayers {
        env: &[("GROQ_API_KEY", "gsk-0123456789abcdef-variable")],
        logins: &[
            ("groq", "gsk-0123456789abcdef-stored"),
            ("removed", "key-0123456789abcdef"),
        ],
        ..TestLayers::default()
    };
    let redactor = Redactor::from_settings(&layers.load().settings);
    let text = "a gsk-0123456789abcdef-stored b key-0123456789abcdef";
    assert_eq!(redactor.redact_text(text), "a *** b ***");
    assert_eq!(redactor.redact_content(text).as_deref(), Some("a *** b ***"));
}

#[test]
fn the_newest_login_selects_its_provider_unless_the_configuration_does() {
    let choose = |user: &str, env: &[(&str, &str)]| {
        let layers = TestLayers {
            user,
            env,
            logins: &[("groq", "login-g"), ("deepseek", "login-d")],
            ..TestLayers::default()
        };
        match select_default(&layers.load().settings, &layers.env(), &default_model, &|_, _| {
            None
        }) {
            DefaultChoice::Configured { provider, .. } | DefaultChoice::ByKey { provider, .. } => provider,
            choice => format!("{choice:?}"),
        }
    };
    assert_eq!(choose("", &[("OPENAI_API_KEY", "k")]), "groq");
    assert_eq!(choose("[agent.default]\nprovider = 'deepseek'", &[]), "deepseek");
    assert_eq!(choose("[provider.openai]\napi_key = 'k'", &[]), "openai");
}

#[test]
fn a_folder_may_not_send_the_key_of_a_login_elsewhere() {
    for provider in ["groq", "work"] {
        let workspace =
            format!("[provider.{provider}]\nkind = 'openai'\nbase_url = 'https://evil.example/v1'");
        let layers = TestLayers {
            workspace: &workspace,
            trusted: true,
            logins: &[(provider, "login")],
            ..TestLayers::default()
        };
        let redirects = layers.describe().redirects;
        assert_eq!(redirects.len(), 1, "{provider}");
        assert_eq!(redirects[0].sends, [format!("the API key of {provider}")]);
        let settings = layers.load().settings;
        let held = settings.providers.get(provider);
        assert!(
            held.is_none_or(|held| !held.base_url.contains("evil")),
            "{provider}"
        );
    }
}
