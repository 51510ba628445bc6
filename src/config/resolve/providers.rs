//! Resolves providers: what their name implies, their address, key and headers, and the routes between them.
//!
//! Fails closed: a broken address or key makes the provider unusable, instead of falling back to a default one.

use std::collections::{BTreeMap, BTreeSet};

use secrecy::{ExposeSecret, SecretString};
use url::{Host, Url};

use super::resolver::Resolver;
use crate::config::api_kind::ApiKind;
use crate::config::diagnostics::{Diagnostic, nearest_name};
use crate::config::names::{Availability, PROVIDER_PRESETS, ProviderPreset, find_preset};
use crate::config::settings::{ProviderSettings, Settings};
use crate::config::tree::join_keys;

impl Resolver<'_> {
    pub(super) fn resolve_providers(&mut self, settings: &mut Settings) {
        let mut stated = std::mem::take(&mut settings.providers);
        let is_named = |name: &str| {
            let agents = settings.agents.values();
            let routes = agents.clone().flat_map(|agent| agent.iter_route());
            let mut named = agents
                .filter_map(|agent| agent.provider.as_deref())
                .chain(routes.map(|(name, _)| name));
            named.any(|named| named == name)
        };
        let has_key = |known: &ProviderPreset| {
            let mut variable = known.key_variable.iter();
            variable.any(|variable| self.inputs.env.non_empty(variable).is_some())
                || self.inputs.keys.find(known.name).is_some()
        };
        let is_available = |known: &&ProviderPreset| match known.availability {
            Availability::Always => true,
            Availability::WithKey => has_key(known) || is_named(known.name),
            Availability::Configured => false,
        };
        for known in PROVIDER_PRESETS.iter().filter(is_available) {
            stated.entry(known.name.to_owned()).or_default();
        }
        for (name, mut provider) in stated {
            provider.configured = self.chosen.contains(&name);
            provider.name.clone_from(&name);
            match self.complete_provider(&mut provider) {
                Ok(()) => _ = settings.providers.insert(name, provider),
                Err(reason) => _ = settings.broken_providers.insert(name, reason),
            }
        }
        self.prune_fallbacks(settings);
        settings.logins = self.inputs.keys.clone();
    }

    /// Completes one provider. `Err` says why it cannot be used.
    ///
    /// A broken address must not fall back to the default one: it would send one company's data to another.
    fn complete_provider(&mut self, provider: &mut ProviderSettings) -> Result<(), String> {
        let name = provider.name.clone();
        let of = |key| ["provider", name.as_str(), key];
        for key in ["kind", "base_url", "cassette"] {
            if self.has_failed(&of(key)) {
                return Err(format!("could not use `{}`", join_keys(&of(key))));
            }
        }
        let known = find_preset(&name);
        let has_address = self.is_set(&of("base_url"));
        if !self.is_set(&of("kind")) {
            provider.kind = match known {
                Some(known) => known.kind_at(&provider.base_url),
                None => return Err(self.report_missing_kind(&name)),
            };
        }
        if !has_address {
            let usual = known.and_then(|known| known.address_for(provider.kind));
            provider.base_url = usual.unwrap_or_default();
        }
        if provider.kind == ApiKind::Script {
            (provider.base_url, provider.local) = (String::new(), true);
            if provider.cassette.is_none() {
                self.report_error(
                    &["provider", &name],
                    "a provider of kind `script` needs a `cassette`",
                );
                return Err("it has no `cassette`".to_owned());
            }
        } else {
            let address = Some(provider.base_url.as_str()).filter(|text| has_address || !text.is_empty());
            (provider.base_url, provider.local) = self.base_url(&name, address)?;
        }
        self.complete_key(provider)?;
        let headers = std::mem::take(&mut provider.headers);
        provider.headers = self.resolve_headers(&name, headers);
        for model in [&mut provider.model, &mut provider.fallback_model] {
            model.take_if(|model| model.is_empty());
        }
        Ok(())
    }

    fn report_missing_kind(&mut self, name: &str) -> String {
        let message = "has no `kind`, and its name is not a known provider";
        let path = ["provider", name];
        let names = PROVIDER_PRESETS.iter().map(|known| known.name);
        let hint = match nearest_name(name, names) {
            Some(suggestion) => {
                format!("did you mean `{suggestion}`? else add kind = \"openai\" or \"anthropic\"")
            }
            None => "add kind = \"openai\" or \"anthropic\"".to_owned(),
        };
        let problem = Diagnostic::new_error(&self.find_location(&path), join_keys(&path), message);
        self.problems.push(problem.with_hint(hint));
        "it has no `kind`".to_owned()
    }

    /// Takes the key from the usual variable or else from the login, unless the configuration names one.
    fn complete_key(&mut self, provider: &mut ProviderSettings) -> Result<(), String> {
        let path = ["provider", &provider.name, "api_key"];
        provider.api_key.take_if(|key| key.expose_secret().is_empty());
        // Never replace a key that was named but is missing by the key of another account.
        if !self.is_set(&path) && !self.has_failed(&path) {
            let variable = find_preset(&provider.name).and_then(|known| known.key_variable);
            let key = variable.and_then(|variable| self.inputs.env.non_empty(variable));
            let login = self.inputs.keys.find(&provider.name);
            provider.is_login_key = key.is_none() && login.is_some();
            provider.api_key = key.map(SecretString::from).or_else(|| login.cloned());
        }
        // Files with a secret usually end with a line end.
        if let Some(key) = &provider.api_key
            && trim_key(key.expose_secret()) != key.expose_secret()
        {
            provider.api_key = Some(SecretString::from(trim_key(key.expose_secret())));
        }
        provider.api_key.take_if(|key| key.expose_secret().is_empty());
        // A key becomes an HTTP header, where a line end would start another one.
        let is_usable = |key: &SecretString| header_value(key.expose_secret());
        if !provider.api_key.as_ref().is_none_or(is_usable) {
            self.report_error(
                &path,
                "contains characters that no HTTP header can have, such as a line end",
            );
            return Err("its key cannot be sent".to_owned());
        }
        Ok(())
    }

    /// Returns the address without a trailing `/`, and whether it is local.
    fn base_url(&mut self, name: &str, text: Option<&str>) -> Result<(String, bool), String> {
        let path = ["provider", name, "base_url"];
        let Some(text) = text else {
            self.report_error(&["provider", name], "needs a `base_url`");
            return Err("it has no `base_url`".to_owned());
        };
        let good = Url::parse(text)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some());
        let Some(url) = good else {
            self.report_error(&path, "must be an address such as https://llm.example.com/v1");
            return Err("its `base_url` is not an address".to_owned());
        };
        Ok((text.trim_end_matches('/').to_owned(), is_local_address(&url)))
    }

    fn resolve_headers(
        &mut self,
        provider: &str,
        mut headers: BTreeMap<String, SecretString>,
    ) -> BTreeMap<String, SecretString> {
        headers.retain(|name, value| {
            // Files and variables with a secret usually end with a line end.
            *value = SecretString::from(value.expose_secret().trim());
            let is_header = header_name(name) && header_value(value.expose_secret());
            if !is_header {
                self.report_error(
                    &["provider", provider, "headers", name],
                    "is not an HTTP header; ignored",
                );
            }
            is_header
        });
        headers
    }

    /// Removes unknown names and cycles from the fallback routes.
    fn prune_fallbacks(&mut self, settings: &mut Settings) {
        let (providers, broken) = (&mut settings.providers, &settings.broken_providers);
        let names: BTreeSet<String> = providers.keys().chain(broken.keys()).cloned().collect();
        // In the order of names, so that each load drops the same edge of a cycle.
        let mut routes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, provider) in providers.iter() {
            let mut known = Vec::new();
            for target in provider.fallback.iter() {
                if names.contains(target) {
                    known.push(target.clone());
                } else {
                    let suggestion = nearest_name(target, names.iter().map(String::as_str));
                    let message = format!("unknown provider `{target}`");
                    self.report_misspelling(&["provider", name, "fallback"], message, suggestion);
                }
            }
            // Skip an edge that would lead back, so the kept routes never contain a cycle.
            let mut kept = Vec::new();
            for target in known {
                match find_fallback_path(&routes, &target, name) {
                    Some(cycle) => {
                        let message = format!("is a cycle: {name} → {}", cycle.join(" → "));
                        self.report_error(&["provider", name, "fallback"], message);
                    }
                    None if !kept.contains(&target) => kept.push(target),
                    None => {}
                }
            }
            routes.insert(name.clone(), kept);
        }
        // A broken provider is a known name, so nothing above reports it; but it cannot take over.
        for (name, provider) in providers.iter_mut() {
            provider.fallback.0 = routes.remove(name).unwrap_or_default();
            provider.fallback.retain(|target| !broken.contains_key(target));
        }
    }
}

/// Returns a path from `from` to `to` along the routes.
fn find_fallback_path(routes: &BTreeMap<String, Vec<String>>, from: &str, to: &str) -> Option<Vec<String>> {
    let mut visited = BTreeSet::from([from.to_owned()]);
    let mut open = vec![vec![from.to_owned()]];
    while let Some(path) = open.pop() {
        let last = path.last()?;
        if last == to {
            return Some(path);
        }
        for next in routes.get(last).into_iter().flatten() {
            if visited.insert(next.clone()) {
                open.push(path.iter().cloned().chain([next.clone()]).collect());
            }
        }
    }
    None
}

// A `token` of RFC 9110.
fn header_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

fn header_value(value: &str) -> bool {
    value.bytes().all(|b| (b' '..=b'~').contains(&b) || b == b'\t')
}

/// Returns whether an address is local: this machine or its private network. Local models get longer time limits.
fn is_local_address(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost"
                || [".localhost", ".local", ".internal"]
                    .iter()
                    .any(|end| name.ends_with(end))
        }
        Some(Host::Ipv4(ip)) => {
            ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_unspecified()
        }
        Some(Host::Ipv6(ip)) => {
            ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local() || ip.is_unspecified()
        }
        None => false,
    }
}

/// Removes what editors and browsers leave around a key: blanks, a byte order mark, and invisible blanks.
fn trim_key(key: &str) -> &str {
    key.trim_matches(|letter: char| letter.is_whitespace() || matches!(letter, '\u{feff}' | '\u{200b}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_and_loopback_addresses_are_local() {
        for (url, expected) in [
            ("http://localhost:1234/v1", true),
            ("http://127.0.0.1", true),
            ("http://192.168.1.5:8080", true),
            ("http://[::1]:80", true),
            ("http://box.local", true),
            ("http://host.docker.internal:1", true),
            ("https://api.openai.com/v1", false),
            ("https://8.8.8.8", false),
            ("https://localhost.example.com", false),
        ] {
            assert_eq!(is_local_address(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}
