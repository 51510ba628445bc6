//! Fetches the data for a catalogue of models, on the user's request only.
//!
//! Uses the providers' HTTP client: the configured proxy and certificates, no redirects, no cookies, no key. Knows
//! nothing about what the data means; see `models`.

use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::account::{ProviderAccount, is_local};
use super::account_health::AccountHealth;
use super::error::Failure;
use super::http::{Http, HttpSettings};
use crate::base::clock;
use crate::config::{ApiKind, NetworkSettings, Redactor};
use crate::domain::circuit::CircuitPolicy;

/// The most bytes that are read. The data of models.dev has 5 MB.
pub const MAX_CATALOG_SOURCE: usize = 32 << 20;

/// The time limits for connecting, and for the whole answer.
const CONNECT: Duration = Duration::from_secs(10);
const WHOLE: Duration = Duration::from_secs(120);

/// Fetches `address`.
///
/// # Errors
/// Says why nothing was fetched, with the host: the address is not allowed, nobody answers, the answer is not a success
/// or too large.
pub async fn fetch_catalog(address: &str, network: &NetworkSettings) -> Result<Vec<u8>, String> {
    let url = Url::parse(address).map_err(|error| format!("{address} is not an address: {error}"))?;
    match url.scheme() {
        "https" => {}
        // Without encryption, anybody on the way could change the prices. In the local network that is the user's call.
        "http" if is_local(&url) => {}
        _ => return Err(format!("{address} is not an https:// address")),
    }
    let account = Arc::new(ProviderAccount {
        name: "models".to_owned(),
        kind: ApiKind::OpenAi,
        base: url.clone(),
        secrets: Vec::new(),
        redactor: Redactor::default(),
        health: AccountHealth::new("models", CircuitPolicy::default()),
    });
    let settings = HttpSettings {
        ca_file: network.ca_file.clone(),
        proxy: network.find_proxy(&url).cloned(),
        connect: CONNECT,
    };
    let http = Http::new(account.clone(), settings);
    let fetched = clock::timeout(WHOLE, read_answer(&http, &account, url));
    let fetched = fetched.await;
    let host = account.host_and_port();
    let failure = match fetched {
        Ok(Ok(body)) => return Ok(body),
        Ok(Err(failure)) => account.build_provider_error("", failure).message,
        Err(_) => format!("{host} did not answer in {} s", WHOLE.as_secs()),
    };
    Err(failure)
}

async fn read_answer(http: &Http, account: &ProviderAccount, url: Url) -> Result<Vec<u8>, Failure> {
    let host = account.host_and_port();
    let request = http.get_or_build_client().await?.get(url);
    let mut response = match request.send().await {
        Ok(response) => response,
        Err(error) => return Err(http.explain_no_response(&error).await),
    };
    let status = response.status();
    if !status.is_success() {
        return Err(Failure::broken_stream(format!("{host} answered {status}")));
    }
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Err(error) => return Err(http.explain_no_response(&error).await),
            Ok(None) => return Ok(body),
            Ok(Some(piece)) if body.len() + piece.len() > MAX_CATALOG_SOURCE => {
                let limit = MAX_CATALOG_SOURCE >> 20;
                return Err(Failure::broken_stream(format!(
                    "{host} sent more than {limit} MB"
                )));
            }
            Ok(Some(piece)) => body.extend_from_slice(&piece),
        }
    }
}
