//! The identity of a provider's account: what its error messages name, and which secrets they must not contain.
//!
//! Every failure becomes a [`ProviderError`] here, so this is the one place that enforces I15 for error texts.
//! It classifies nothing: see `classify`. It also decides which hosts count as local, and who names the
//! models of a host.

use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::account_health::AccountHealth;
use super::error::{Failure, ProviderError};
use super::models::{ModelNaming, plain_name};
use crate::base::text;
use crate::config::ApiKind;
use crate::config::Redactor;

/// A provider's account, with what error messages and time limits need.
#[derive(Debug)]
pub(crate) struct ProviderAccount {
    pub(crate) name: String,
    pub(crate) kind: ApiKind,
    pub(crate) base: Url,
    /// Never shown: the key, and the values of extra headers.
    pub(crate) secrets: Vec<SecretString>,
    /// Knows the keys of all providers. None of them may reach this one (I15).
    pub(crate) redactor: Redactor,
    pub(crate) health: Arc<AccountHealth>,
}

/// The vendors' own hosts, and the prefixes of their models' names.
const VENDORS: [(&str, &[&str]); 3] = [
    ("api.anthropic.com", &["claude-"]),
    ("api.openai.com", &["gpt-", "chatgpt-", "o1", "o3", "o4"]),
    ("api.deepseek.com", &["deepseek-"]),
];

/// The most characters of an error message; longer ones are cut.
const MAX_MESSAGE_CHARS: usize = 2_000;

/// Values below this length in bytes are not redacted: they are not secrets, and replacing them garbles messages.
const MIN_SECRET_LEN: usize = 6;

/// The variables that usually hold a vendor's key, by the vendor's domain and its APIs.
const KEY_VARIABLES: [(&str, &[ApiKind], &str); 4] = [
    ("anthropic.com", &[ApiKind::Anthropic], "ANTHROPIC_API_KEY"),
    (
        "openrouter.ai",
        &[ApiKind::OpenAi, ApiKind::Responses],
        "OPENROUTER_API_KEY",
    ),
    (
        "openai.com",
        &[ApiKind::OpenAi, ApiKind::Responses],
        "OPENAI_API_KEY",
    ),
    (
        "googleapis.com",
        &[ApiKind::Gemini, ApiKind::OpenAi],
        "GEMINI_API_KEY",
    ),
];

impl ProviderAccount {
    /// Turns a failure into an error of this account, with all secrets removed from its texts.
    pub(crate) fn build_provider_error(&self, model: &str, failure: Failure) -> ProviderError {
        ProviderError {
            fault: failure.fault,
            provider: self.name.clone(),
            model: model.to_owned(),
            message: self.redact_message(&failure.message),
            status: failure.status,
            // The provider chooses this text too, so it may echo a key.
            request_id: failure.request_id.map(|id| self.redact_message(&id)),
            retry_after: failure.retry_after,
            user_action: failure.user_action.map(|action| self.redact_message(&action)),
            should_retry: failure.should_retry,
        }
    }

    /// Reports whether the host is on this machine or in the local network.
    pub(crate) fn is_local(&self) -> bool {
        is_local(&self.base)
    }

    /// Returns the host, with the port if the URL has one. User, path and query may hold credentials, so they stay out.
    pub(crate) fn host_and_port(&self) -> String {
        let host = self.base.host_str().unwrap_or("?");
        match self.base.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// Guesses from the name and the port whether this is Ollama, whose default port is 11434.
    pub(crate) fn is_ollama(&self) -> bool {
        self.name.eq_ignore_ascii_case("ollama") || self.base.port() == Some(11_434)
    }

    /// Returns what to check when the key is refused.
    pub(crate) fn key_hint(&self) -> String {
        let host = self.base.host_str().unwrap_or_default();
        // Only the vendor's own host takes the vendor's variable; another server has its own key.
        let known = KEY_VARIABLES
            .iter()
            .find(|(domain, kinds, _)| host.ends_with(domain) && kinds.contains(&self.kind));
        let variable = known.map(|(.., variable)| variable);
        let setting = format!("[provider.{}] api_key", self.name);
        let login = format!("`agentls login {}`", self.name);
        match variable {
            Some(variable) => format!("check the key in {variable} or {setting}, or renew that of {login}"),
            None => format!("check the key in {setting}, or renew that of {login}"),
        }
    }

    fn redact_message(&self, message: &str) -> String {
        // Control characters go first, so that none can split a secret or reach a terminal.
        let mut clean = text::strip_control_characters(message).into_owned();
        for secret in &self.secrets {
            let secret = secret.expose_secret();
            if secret.len() >= MIN_SECRET_LEN {
                clean = clean.replace(secret, "[redacted]");
            }
        }
        let clean = self.redactor.redact_text(&clean);
        // Cutting comes last: a secret that is cut in half no longer matches.
        text::one_line(&redact_key_shapes(&clean), MAX_MESSAGE_CHARS)
    }
}

/// Reports whether the name is one of OpenAI's models behind its own API.
pub(super) fn is_openai_model(model: &str) -> bool {
    let [_, (_, families), _] = VENDORS;
    let name = plain_name(model);
    // OpenAI's open models run on other software.
    !name.starts_with("gpt-oss") && families.iter().any(|family| name.starts_with(family))
}

/// Returns who names the models at an address.
pub(super) fn naming_at(kind: ApiKind, address: &Url) -> ModelNaming {
    let host = address.host_str().unwrap_or_default();
    let vendor = VENDORS.iter().find(|(vendor, _)| host == *vendor);
    match (kind, vendor) {
        (ApiKind::Script, _) => ModelNaming::Free,
        (_, Some((_, families))) => ModelNaming::Vendor(families),
        (ApiKind::Anthropic, None) if !is_local(address) => ModelNaming::Gateway,
        (_, None) => ModelNaming::Free,
    }
}

/// Redacts every word that begins like an API key. Providers echo a refused key, sometimes partly masked, so an
/// exact match is not enough.
fn redact_key_shapes(text: &str) -> String {
    const SHAPES: [&str; 6] = ["sk-", "sk_", "gsk_", "xai-", "AIza", "pk-"];
    if !SHAPES.iter().any(|shape| text.contains(shape)) {
        return text.to_owned();
    }
    let word_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ')' | '`');
    text.split_inclusive(word_end)
        .map(|word| {
            let bare = word.trim_start_matches(['"', '\'', '(', '`']);
            match SHAPES.iter().find(|shape| bare.starts_with(**shape)) {
                Some(shape) => {
                    let opening = &word[..word.len() - bare.len()];
                    let closing = &bare[bare.trim_end_matches(word_end).len()..];
                    format!("{opening}{shape}[redacted]{closing}")
                }
                None => word.to_owned(),
            }
        })
        .collect()
}

/// Reports whether the host is on this machine or in the local network. Such hosts get a longer first-event limit,
/// because they load models slowly (R-PROV-2).
pub(crate) fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => {
            // A trailing dot only marks the name as complete.
            let name = name.trim_end_matches('.');
            name == "localhost"
                || name.ends_with(".localhost")
                || name.ends_with(".local")
                || name.ends_with(".lan")
                || name.ends_with(".internal")
                // A bare name resolves only in the local network.
                || !name.contains('.')
        }
        Some(url::Host::Ipv4(ip)) => is_local_ipv4(ip),
        // `::ffff:10.0.0.1` is the same host as `10.0.0.1`.
        Some(url::Host::Ipv6(ip)) => match ip.to_ipv4_mapped() {
            Some(ip) => is_local_ipv4(ip),
            None => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
        },
        None => false,
    }
}

fn is_local_ipv4(ip: std::net::Ipv4Addr) -> bool {
    ip.is_loopback() || ip.is_private() || ip.is_link_local()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::provider::error::ProviderFault;

    pub(crate) fn build_account(name: &str, kind: ApiKind, base: &str) -> ProviderAccount {
        ProviderAccount {
            name: name.into(),
            kind,
            base: Url::parse(base).unwrap(),
            secrets: vec!["s3cret-canary".to_owned().into()],
            redactor: Redactor::default(),
            health: AccountHealth::new(name, Default::default()),
        }
    }

    #[test]
    fn secrets_are_redacted_from_messages() {
        let account = build_account("work", ApiKind::OpenAi, "https://user:pass@llm.example.com/v1");
        let message = "bad key 's3cret-canary' (sk-abc***xyz), \"sk-proj-1\" \u{1b}[31m";
        let failure =
            Failure::new(ProviderFault::Unauthorized, message).with_user_action("see s3cret-canary");
        let error = account.build_provider_error("m", failure);
        assert_eq!(
            error.message,
            "bad key '[redacted]' (sk-[redacted]), \"sk-[redacted]\""
        );
        assert_eq!(error.user_action.as_deref(), Some("see [redacted]"));
        assert_eq!(account.host_and_port(), "llm.example.com");
    }

    #[test]
    fn local_and_loopback_addresses_are_recognized() {
        for (url, local) in [
            ("http://localhost:11434/v1", true),
            ("http://127.0.0.1:1/v1", true),
            ("http://[::1]:1/v1", true),
            ("http://192.168.1.5/v1", true),
            ("http://gpu-box:8000", true),
            ("http://gpu.local", true),
            ("http://host.docker.internal:1", true),
            ("http://[::ffff:192.168.1.5]/v1", true),
            // The unspecified address names no particular host, so it does not count as local.
            ("http://0.0.0.0:8000", false),
            ("https://[::ffff:8.8.8.8]/v1", false),
            ("https://api.openai.com/v1", false),
            ("https://8.8.8.8/v1", false),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(is_local(&url), local, "{url}");
        }
    }

    #[test]
    fn key_hint_names_the_environment_variable() {
        let hint = |kind, base| build_account("p", kind, base).key_hint();
        let anthropic = hint(ApiKind::Anthropic, "https://api.anthropic.com");
        assert_eq!(
            anthropic,
            "check the key in ANTHROPIC_API_KEY or [provider.p] api_key, or renew that of `agentls login p`"
        );
        assert_eq!(
            hint(ApiKind::OpenAi, "https://x.example"),
            "check the key in [provider.p] api_key, or renew that of `agentls login p`"
        );
    }
}
