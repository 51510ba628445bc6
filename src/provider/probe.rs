//! Asks servers which models they have: a local Ollama is found by that (R-PROV), and the doctor tries an address
//! and a key by it.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderValue};

use super::account::Account;
use super::anthropic::Anthropic;
use super::call::{refused, timed_out};
use super::circuit::CircuitPolicy;
use super::classify::Failure;
use super::error::{Phase, ProviderError};
use super::http::{Http, HttpSettings, no_response};
use super::openai::{Flavour, OpenAi};
use super::registry::{Kind, ProviderSpec, unusable};
use super::standing::Standing;
use crate::config::Redactor;

/// The largest list that is read, in bytes.
const MAX_LIST: usize = 1 << 20;

/// The models of the server at `base_url`, newest first as it lists them; none when it does not answer
/// within `limit`.
pub async fn list_models(name: &str, base_url: &str, limit: Duration) -> Option<Vec<String>> {
    let base = url::Url::parse(base_url).ok()?;
    let address = super::address(&base, "models");
    let account = Account {
        name: name.to_owned(),
        kind: Kind::OpenAi,
        base,
        secrets: Vec::new(),
        redactor: Redactor::default(),
        standing: Standing::new(name, CircuitPolicy::default()),
    };
    let settings = HttpSettings {
        ca_file: None,
        proxy: None,
        no_proxy: None,
        connect: limit,
    };
    let http = Http::new(account.into(), settings);
    tokio::time::timeout(limit, ask(&http, address)).await.ok()?
}

/// What a call has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// Address and key are right; so many models are listed.
    Models(usize),
    /// Address and key are right.
    Key,
    /// The address is right. There is nothing that would try the key for nothing.
    Address,
}

/// Makes the cheapest call that shows whether the address and the key are right: asks for the list of models, or where
/// that is shown to everybody, about the key itself. No token is paid for.
pub async fn reach(spec: &ProviderSpec, limit: Duration) -> Result<Reached, ProviderError> {
    if spec.kind == Kind::Script {
        return Ok(Reached::Address);
    }
    let account = Arc::new(Account {
        name: spec.name.clone(),
        kind: spec.kind,
        base: spec.address().map_err(|failure| unusable(spec, "", failure))?,
        secrets: spec
            .api_key
            .iter()
            .chain(spec.headers.values())
            .cloned()
            .collect(),
        redactor: spec.redactor.clone(),
        standing: spec.standing.clone(),
    });
    let asked = tokio::time::timeout(limit, models(spec, &account));
    let answered = asked
        .await
        .unwrap_or_else(|_| Err(timed_out(&account, Phase::FirstEvent, limit)));
    answered.map_err(|failure| account.error("", failure))
}

async fn models(spec: &ProviderSpec, account: &Arc<Account>) -> Result<Reached, Failure> {
    let extra = spec.extra_headers()?;
    let path = cheapest(account);
    let mut headers = match spec.kind {
        Kind::Anthropic => Anthropic::headers(spec.key("")?, extra),
        Kind::OpenAi | Kind::Responses | Kind::Script => OpenAi::headers(spec.key("Bearer ")?, extra),
    };
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let connect = spec.limits.connect_or_default();
    let settings = HttpSettings {
        ca_file: spec.ca_file.clone(),
        proxy: spec.proxy.clone(),
        no_proxy: spec.no_proxy.clone(),
        connect,
    };
    let http = Http::new(account.clone(), settings);
    let request = http.client().await?.get(super::address(&account.base, path));
    let sent = request.headers(headers).send().await;
    let response = sent.map_err(|error| no_response(account, connect, &error))?;
    let status = response.status().as_u16();
    match status {
        200..300 if path == OF_KEY => Ok(Reached::Key),
        200..300 => Ok(listed(response)
            .await
            .map_or(Reached::Address, |models| Reached::Models(models.len()))),
        // Not everyone who speaks the API has a list.
        404 | 405 => Ok(Reached::Address),
        _ => Err(refused(account, "", status, response).await),
    }
}

/// OpenRouter shows its models to everybody, and tells with this what a key is worth.
const OF_KEY: &str = "key";

/// The path of the call.
fn cheapest(account: &Account) -> &'static str {
    match account.kind {
        Kind::Anthropic => "v1/models",
        Kind::OpenAi | Kind::Responses | Kind::Script => match Flavour::of(account) {
            Flavour::OpenRouter => OF_KEY,
            Flavour::OpenAi | Flavour::Mistral | Flavour::ReasoningBack | Flavour::Other => "models",
        },
    }
}

async fn ask(http: &Http, address: url::Url) -> Option<Vec<String>> {
    let response = http.client().await.ok()?.get(address).send().await.ok()?;
    listed(response.error_for_status().ok()?).await
}

async fn listed(mut response: reqwest::Response) -> Option<Vec<String>> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.ok()? {
        body.extend_from_slice(&piece);
        if body.len() > MAX_LIST {
            return None;
        }
    }
    let list: serde_json::Value = serde_json::from_slice(&body).ok()?;
    let models = list.get("data")?.as_array()?;
    Some(
        models
            .iter()
            .filter_map(|model| model.get("id")?.as_str().map(str::to_owned))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::account::tests::account;

    #[test]
    fn a_list_that_everybody_gets_tries_no_key() {
        for (kind, base, path) in [
            (Kind::Anthropic, "https://api.anthropic.com", "v1/models"),
            (Kind::OpenAi, "https://api.openai.com/v1", "models"),
            (Kind::OpenAi, "https://openrouter.ai/api/v1", "key"),
            (Kind::Responses, "https://openrouter.ai/api/v1", "key"),
        ] {
            assert_eq!(cheapest(&account("p", kind, base)), path, "{base}");
        }
    }
}
