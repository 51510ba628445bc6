//! Asks a local server which models it has (R-PROV: a local Ollama is found by itself).

use std::time::Duration;

use super::account::Account;
use super::http::{Http, HttpSettings};
use super::registry::Kind;

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
    };
    let settings = HttpSettings {
        ca_file: None,
        proxy: None,
        connect: limit,
    };
    let http = Http::new(account.into(), settings);
    tokio::time::timeout(limit, ask(&http, address)).await.ok()?
}

async fn ask(http: &Http, address: url::Url) -> Option<Vec<String>> {
    let response = http.client().await.ok()?.get(address).send().await.ok()?;
    let mut body = Vec::new();
    let mut response = response.error_for_status().ok()?;
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
