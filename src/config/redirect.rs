//! Redirects: where a trusted folder's files would send the user's keys. Each one is held back until the user
//! accepts exactly that address (R-CONF).
//!
//! Fails closed: whatever the folder sets for a provider's address, headers or key counts as a redirect, and so does a
//! text in the bodies of requests, where a gateway may read an address. Exceptions: it leads where the user's own
//! configuration leads, or none of the user's secrets can go there. Must not know how acceptances are stored.

use std::collections::BTreeSet;

use url::Url;

use crate::base::text::reveal_hidden_characters;

use super::api_kind::ApiKind;
use super::diagnostics::{Diagnostic, HOW_TO_TRUST};
use super::location::ValueSource;
use super::names::find_preset;
use super::settings::{ProviderSettings, Settings};
use super::tree::{Node, SpannedValue, join_keys};

/// The provider's name in a redirect of all providers, by a proxy, certificates, or fields for a model.
const ALL: &str = "*";
/// The longest target that can be accepted, in bytes, because a user must see all of it.
const MAX_TARGET: usize = 2_000;
/// The settings that decide where a provider's key goes, and which key.
const KEYS: [&str; 5] = ["kind", "base_url", "api_key", "headers", "extra_body"];
/// Headers that neither route a request nor carry a secret.
#[rustfmt::skip]
const HARMLESS_HEADERS: [&str; 9] = [
    "accept", "accept-language", "anthropic-beta", "anthropic-version", "http-referer", "openai-beta",
    "referer", "user-agent", "x-title",
];

/// A folder's request to send a key of the user's somewhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderRedirect {
    /// The provider; `*` for all of them.
    pub provider: String,
    /// The target in the user's own configuration; `None` if only the folder names this provider.
    pub from: Option<String>,
    /// The folder's target. An acceptance holds for exactly this text.
    pub to: String,
    /// Which of the user's secrets would go there.
    pub sends: Vec<String>,
    pub accepted: bool,
}

impl ProviderRedirect {
    /// Returns whether it is short enough for a user to read in full.
    pub fn can_be_accepted(&self) -> bool {
        let sends: usize = self.sends.iter().map(String::len).sum();
        self.provider.len() + self.to.len() + sends <= MAX_TARGET
    }
}

/// A merged configuration and its settings.
pub(super) struct MergedConfig<'a> {
    pub(super) tree: &'a SpannedValue,
    pub(super) settings: &'a Settings,
}

/// The folder's own files, merged, and the variables that they name.
pub(super) struct FolderRedirects<'a> {
    pub(super) tree: &'a SpannedValue,
    pub(super) variables: &'a BTreeSet<String>,
}

/// Finds the redirects of a folder. `own` is the configuration without its files, `full` with all of them.
pub(super) fn find_redirects(
    own: &MergedConfig<'_>,
    full: &MergedConfig<'_>,
    folder: &FolderRedirects<'_>,
    is_accepted: &dyn Fn(&str, &str) -> bool,
) -> Vec<ProviderRedirect> {
    let finder = RedirectFinder { own, full, folder };
    let providers = full.settings.providers.values();
    let mut redirects: Vec<_> = providers
        .filter_map(|provider| finder.of_provider(provider))
        .collect();
    redirects.extend(finder.of_all_providers());
    for redirect in &mut redirects {
        redirect.accepted = redirect.can_be_accepted() && is_accepted(&redirect.provider, &redirect.to);
    }
    redirects
}

/// Removes redirects that were not accepted from a folder's file. The second list contains settings without which a
/// provider that only the folder defines cannot be used.
pub(super) fn hold_back(
    tree: &mut SpannedValue,
    redirects: &[ProviderRedirect],
) -> (Vec<Diagnostic>, Vec<String>) {
    let mut problems = Vec::new();
    let mut failed = Vec::new();
    for redirect in redirects.iter().filter(|redirect| !redirect.accepted) {
        let provider = redirect.provider.as_str();
        let models = table_names(tree.find(&["model"]));
        let paths: Vec<Vec<&str>> = match provider {
            ALL => [vec!["network", "proxy"], vec!["network", "ca_file"]]
                .into_iter()
                .chain(models.iter().map(|model| vec!["model", model, "extra_body"]))
                .collect(),
            _ => KEYS.iter().map(|key| vec!["provider", provider, *key]).collect(),
        };
        let removed: Vec<_> = paths
            .iter()
            .filter_map(|path| Some((join_keys(path), tree.take(path)?)))
            .collect();
        let Some((path, value)) = removed.first() else {
            continue;
        };
        let problem = Diagnostic::new_warning(&value.at, path.as_str(), format_redirect_message(redirect));
        problems.push(problem.with_hint(format!("to accept it, use {HOW_TO_TRUST}")));
        // Only the folder defines this provider. Without its address it must fail, not use a preset's.
        if redirect.from.is_none() && provider != ALL {
            failed.push(join_keys(&["provider", provider, "base_url"]));
        }
    }
    (problems, failed)
}

fn format_redirect_message(redirect: &ProviderRedirect) -> String {
    let payload = match redirect.sends.as_slice() {
        [] => "your requests".to_owned(),
        sends => sends.join(", "),
    };
    format!(
        "ignored: it would send {payload} to {}",
        display_target(&redirect.to)
    )
}

/// Returns the target; for one too long to be accepted, its start and a note.
fn display_target(target: &str) -> String {
    if target.len() > MAX_TARGET {
        format!(
            "{}… (too long to be accepted)",
            crate::base::text::prefix_within(target, MAX_TARGET)
        )
    } else {
        target.to_owned()
    }
}

struct RedirectFinder<'a> {
    own: &'a MergedConfig<'a>,
    full: &'a MergedConfig<'a>,
    folder: &'a FolderRedirects<'a>,
}

impl RedirectFinder<'_> {
    fn of_provider(&self, provider: &ProviderSettings) -> Option<ProviderRedirect> {
        let name = provider.name.as_str();
        self.folder.tree.find(&["provider", name])?;
        if provider.kind == ApiKind::Script || !self.carries_secret(provider) {
            return None;
        }
        let own = self.own.settings.providers.get(name);
        let usual = match own {
            Some(own) => Some(own.base_url.as_str()),
            // The user's own configuration is unusable here. They never chose the preset address instead.
            None if self.own.settings.broken_providers.contains_key(name) => None,
            None => find_preset(name).map(|known| known.base_url),
        };
        let is_moved = usual.map(normalize_url) != Some(normalize_url(&provider.base_url));
        let mut extras = self.describe_headers_and_key(name);
        extras.extend(self.describe_body_texts(["provider", name]));
        if !is_moved && extras.is_empty() {
            return None;
        }
        let mut to = self.describe_target(name, &provider.base_url);
        for extra in &extras {
            to.push_str(extra);
        }
        Some(ProviderRedirect {
            provider: name.to_owned(),
            from: usual.map(|usual| self.describe_own_target(name, usual)),
            to,
            sends: self.collect_sent_secrets(provider),
            accepted: false,
        })
    }

    /// Finds a redirect of all providers, by the network or by fields of the requests to a model.
    fn of_all_providers(&self) -> Option<ProviderRedirect> {
        let mut extras: Vec<String> = self.describe_network().into_iter().collect();
        let mut providers = self.full.settings.providers.values();
        if providers.any(|provider| provider.kind != ApiKind::Script && self.carries_secret(provider)) {
            for model in table_names(self.folder.tree.find(&["model"])) {
                let fields = self.describe_body_texts(["model", &model]).into_iter();
                let model = reveal_hidden_characters(&model).into_owned();
                extras.extend(fields.map(|field| format!("{field} of the model {model}")));
            }
        }
        (!extras.is_empty()).then(|| ProviderRedirect {
            provider: ALL.to_owned(),
            from: Some("your own settings".to_owned()),
            to: format!("all providers{}", extras.concat()),
            sends: vec!["the keys of all providers".to_owned()],
            accepted: false,
        })
    }

    /// Describes the folder's network. A proxy sees only the host of a TLS connection. With the folder's certificates, or
    /// without TLS, it sees everything.
    fn describe_network(&self) -> Option<String> {
        let certificates = self.set_by_folder(&["network", "ca_file"]);
        let proxy = self.set_by_folder(&["network", "proxy"]);
        let mut keyed = self.full.settings.providers.values();
        let is_open = keyed.any(|provider| {
            provider.base_url.to_ascii_lowercase().starts_with("http:") && self.carries_secret(provider)
        });
        if certificates.is_none() && (proxy.is_none() || !is_open) {
            return None;
        }
        let named = [("the proxy", proxy), ("the certificates of", certificates)];
        let named = named
            .iter()
            .filter_map(|(label, value)| Some(format!("{label} {}", raw_text((*value)?))));
        Some(format!(" through {}", named.collect::<Vec<_>>().join(" with ")))
    }

    /// Describes the folder's texts in the request bodies of a provider or a model. Numbers and switches lead nowhere.
    fn describe_body_texts(&self, owner: [&str; 2]) -> Vec<String> {
        let root = [owner[0], owner[1], "extra_body"];
        let mut texts = Vec::new();
        if let Some(body) = self.folder.tree.find(&root) {
            collect_texts(body, &mut Vec::new(), &mut texts);
        }
        let in_effect = texts.into_iter().filter(|(path, _)| {
            let path: Vec<&str> = root.iter().chain(path).copied().collect();
            self.set_by_folder(&path).is_some()
        });
        in_effect
            .map(|(path, text)| {
                let path = join_keys(&path);
                format!(" with the field `{}: {text}`", reveal_hidden_characters(&path))
            })
            .collect()
    }

    /// Returns whether a secret of the user's may go to this provider.
    fn carries_secret(&self, provider: &ProviderSettings) -> bool {
        let has_secret = |provider: &ProviderSettings| {
            provider.takes_editor_key() || provider.api_key.is_some() || !provider.headers.is_empty()
        };
        let own = self.own.settings.providers.get(&provider.name);
        own.is_some_and(has_secret)
            || provider.takes_editor_key()
            || provider.api_key.is_some() && !self.has_folder_key(&provider.name)
            // Any variable that the folder names may hold a secret, and it may end up in any setting.
            || !self.folder.variables.is_empty()
    }

    /// Returns whether the folder's file contains the key itself.
    fn has_folder_key(&self, provider: &str) -> bool {
        let key = self.set_by_folder(&["provider", provider, "api_key"]);
        key.is_some_and(|key| key.raw.is_none())
    }

    /// Describes the folder's headers that may route the request or carry a variable, and a variable that it chose as
    /// key.
    fn describe_headers_and_key(&self, provider: &str) -> Vec<String> {
        let mut extras = Vec::new();
        let headers = self.folder.tree.find(&["provider", provider, "headers"]);
        if let Some(Node::Table(headers)) = headers.map(|headers| &headers.node) {
            for name in headers.keys() {
                let Some(value) = self.set_by_folder(&["provider", provider, "headers", name]) else {
                    continue;
                };
                let is_harmless = HARMLESS_HEADERS
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(name));
                if !is_harmless || value.raw.is_some() {
                    let text = reveal_hidden_characters(name).into_owned() + ": " + &raw_text(value);
                    extras.push(format!(" with the header `{text}`"));
                }
            }
        }
        let key = self.set_by_folder(&["provider", provider, "api_key"]);
        if let Some(raw) = key.and_then(|key| key.raw.as_deref()) {
            let usual = find_preset(provider).and_then(|known| known.key_variable);
            // The usual variable would be sent without the folder's setting as well.
            if usual.is_none_or(|usual| raw != format!("${{{usual}}}")) {
                extras.push(format!(" with the key `{}`", reveal_hidden_characters(raw)));
            }
        }
        extras
    }

    /// Returns a value that is in effect and comes from the folder.
    fn set_by_folder(&self, path: &[&str]) -> Option<&SpannedValue> {
        let setting = self.folder.tree.find(path)?;
        let merged = self.full.tree.find(path)?;
        let is_same = setting.at.origin == merged.at.origin
            && (setting.at.line, setting.at.column) == (merged.at.line, merged.at.column);
        is_same.then_some(merged)
    }

    /// Describes where the folder sends requests. Omits user names in URLs, and shows variables by name.
    fn describe_target(&self, provider: &str, base_url: &str) -> String {
        let setting = self.full.tree.find(&["provider", provider, "base_url"]);
        match setting.and_then(|setting| setting.raw.as_deref()) {
            Some(raw) => reveal_hidden_characters(raw).into_owned(),
            None => normalize_url(base_url),
        }
    }

    /// Describes where the user's own configuration sends requests. Beyond the host, an expanded variable may be
    /// secret.
    fn describe_own_target(&self, provider: &str, base_url: &str) -> String {
        let setting = self.own.tree.find(&["provider", provider, "base_url"]);
        match (
            setting.is_some_and(|setting| setting.raw.is_some()),
            Url::parse(base_url),
        ) {
            (true, Ok(url)) => url.origin().ascii_serialization(),
            _ => normalize_url(base_url),
        }
    }

    fn collect_sent_secrets(&self, provider: &ProviderSettings) -> Vec<String> {
        let name = provider.name.as_str();
        let mut sends = Vec::new();
        if provider.api_key.is_some() && !self.has_folder_key(name) {
            let setting = self.full.tree.find(&["provider", name, "api_key"]);
            match (setting, find_preset(name).and_then(|known| known.key_variable)) {
                (Some(setting), _) if matches!(&*setting.at.origin, ValueSource::File(_)) => {
                    // A default may be the key itself.
                    let raw = setting.raw.as_deref().filter(|raw| !raw.contains(":-"));
                    sends.push(match raw {
                        Some(raw) => reveal_hidden_characters(raw).into_owned(),
                        None => format!("the API key of {name}"),
                    });
                }
                (None, Some(variable)) if !provider.is_login_key => sends.push(format!("${{{variable}}}")),
                _ => sends.push(format!("the API key of {name}")),
            }
        }
        if provider.takes_editor_key() {
            sends.push(format!("the key that your editor keeps for {name}"));
        }
        let own = self.own.settings.providers.get(name);
        let headers = own.iter().flat_map(|own| own.headers.keys());
        sends.extend(headers.map(|header| format!("your header {}", reveal_hidden_characters(header))));
        let variables = self.folder.variables.iter();
        sends.extend(variables.map(|variable| format!("${{{variable}}}")));
        let mut seen = BTreeSet::new();
        sends.retain(|sent| seen.insert(sent.clone()));
        sends
    }
}

/// Returns the names in a table; none if it is not there.
fn table_names(table: Option<&SpannedValue>) -> Vec<String> {
    match table.map(|table| &table.node) {
        Some(Node::Table(entries)) => entries.keys().cloned().collect(),
        _ => Vec::new(),
    }
}

/// Collects the texts below a value, those of a list together, each with its path.
fn collect_texts<'a>(
    value: &'a SpannedValue,
    path: &mut Vec<&'a str>,
    found: &mut Vec<(Vec<&'a str>, String)>,
) {
    match &value.node {
        Node::Table(entries) => {
            for (key, entry) in entries {
                path.push(key);
                collect_texts(entry, path, found);
                path.pop();
            }
        }
        Node::List(items) => {
            let mut texts = Vec::new();
            for item in items {
                collect_texts(item, &mut Vec::new(), &mut texts);
            }
            if !texts.is_empty() {
                let texts: Vec<String> = texts.into_iter().map(|(_, text)| text).collect();
                found.push((path.clone(), texts.join(", ")));
            }
        }
        Node::Text(_) => found.push((path.clone(), raw_text(value))),
        Node::Integer(_) | Node::Float(_) | Node::Bool(_) | Node::Date(_) => {}
    }
}

/// Returns a value as it is written in the file.
fn raw_text(value: &SpannedValue) -> String {
    let text = value.raw.as_deref().or_else(|| value.text()).unwrap_or_default();
    reveal_hidden_characters(text).into_owned()
}

/// Normalizes an address: no user, trailing slash or default port.
fn normalize_url(address: &str) -> String {
    let Ok(mut url) = Url::parse(address) else {
        return reveal_hidden_characters(address).into_owned();
    };
    // Both calls fail only for addresses without a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.as_str().trim_end_matches('/').to_owned()
}
