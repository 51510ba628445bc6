//! Requests to the endpoints of a login: bounded, without redirects, to acceptable addresses only.

use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{RequestBuilder, Response, StatusCode};
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;
use url::form_urlencoded::byte_serialize;
use url::{Host, Url};

use super::OAuthError;
use super::endpoint::EndpointPolicy;
use crate::base::address::not_public;
use crate::base::clock;
use crate::base::error_chain::{find, innermost_message};
use crate::base::public_resolver::{NotPublic, PublicResolver};
use crate::base::tls;
use crate::config::NetworkSettings;

/// Time limit for each request, with its answer.
const LIMIT: Duration = Duration::from_secs(20);
/// Time limit for looking up a name before a proxy is asked to.
const LOOK_UP: Duration = Duration::from_secs(2);
/// The largest document that is read, in bytes.
const MAX_BODY: usize = 256 * 1024;

/// The client for the login at one server.
#[derive(Debug)]
pub struct OAuthClient {
    network: NetworkSettings,
    pub(super) policy: EndpointPolicy,
    /// A client id that the user has configured, and its secret.
    credentials: Option<(String, SecretString)>,
    client: OnceCell<reqwest::Client>,
}

impl OAuthClient {
    /// Creates a client for a server that the user named.
    ///
    /// # Errors
    /// Fails if the server's address is neither `https` nor on this machine.
    pub fn new(server: &Url, network: NetworkSettings) -> Result<Self, OAuthError> {
        Ok(Self {
            network,
            policy: EndpointPolicy::new(server)?,
            credentials: None,
            client: OnceCell::new(),
        })
    }

    /// Sets a client id and its secret. The secret is sent for this client id only, and never stored.
    pub fn with_credentials(mut self, credentials: Option<(String, SecretString)>) -> Self {
        self.credentials = credentials;
        self
    }

    /// Returns the configured secret of a client id.
    pub(super) fn find_secret(&self, client_id: &str) -> Option<&SecretString> {
        let known = self.credentials.as_ref().filter(|(id, _)| id == client_id);
        known.map(|(_, secret)| secret)
    }

    /// Gets the first document that has the right form. `None` if there is none, or pages only.
    ///
    /// # Errors
    /// An address cannot be asked, or the only documents have another form.
    pub(super) async fn get_first_document<T: DeserializeOwned>(
        &self,
        what: &'static str,
        urls: &[Url],
    ) -> Result<Option<T>, OAuthError> {
        let mut other_form = None;
        for url in urls {
            match self
                .get_document(what, url)
                .await?
                .map(|body| parse_body(what, &body))
            {
                Some(Ok(document)) => return Ok(Some(document)),
                Some(Err(error)) => _ = other_form.get_or_insert(error),
                None => {}
            }
        }
        other_form.map_or(Ok(None), Err)
    }

    /// Gets the JSON at an address. `None` if there is nothing, or if the server answers with a page.
    async fn get_document(&self, what: &'static str, url: &Url) -> Result<Option<Vec<u8>>, OAuthError> {
        let client = self.get_or_build().await?;
        let response = self.send(what, url, client.get(url.clone())).await?;
        // 404 is usual; other refusals mean that the path is not served.
        if response.status().is_client_error() {
            return Ok(None);
        }
        let (status, body) = read_body(what, response).await?;
        if status != StatusCode::OK {
            return Err(bad_status(what, status, &body));
        }
        // Servers of single-page applications answer any path with their page.
        if serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_err() {
            return Ok(None);
        }
        Ok(Some(body))
    }

    /// Posts JSON and returns the answer's status and body.
    pub(super) async fn post_json(
        &self,
        what: &'static str,
        url: &Url,
        value: &serde_json::Value,
    ) -> Result<(StatusCode, Vec<u8>), OAuthError> {
        let client = self.get_or_build().await?;
        let request = client
            .post(url.clone())
            .header("content-type", "application/json")
            .body(value.to_string());
        read_body(what, self.send(what, url, request).await?).await
    }

    /// Posts a form and returns the answer's status and body.
    pub(super) async fn post_form(
        &self,
        what: &'static str,
        url: &Url,
        fields: &[(&str, &str)],
        basic: Option<(&str, &str)>,
    ) -> Result<(StatusCode, Vec<u8>), OAuthError> {
        let form = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(fields)
            .finish();
        let client = self.get_or_build().await?;
        let mut request = client
            .post(url.clone())
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form);
        if let Some((name, password)) = basic {
            // OAuth encodes both as in a form (RFC 6749, section 2.3.1).
            let encode = |text: &str| -> String { byte_serialize(text.as_bytes()).collect() };
            request = request.basic_auth(encode(name), Some(encode(password)));
        }
        read_body(what, self.send(what, url, request).await?).await
    }

    /// Asks the server without a token, and returns the challenge of its refusal.
    pub(super) async fn probe_challenge(&self) -> Result<Option<String>, OAuthError> {
        const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let url = self.policy.server();
        let client = self.get_or_build().await?;
        let request = client
            .post(url.clone())
            .header("content-type", "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(PING);
        let response = self.send("the server", url, request).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(None);
        }
        let headers = response.headers().get_all(WWW_AUTHENTICATE).iter();
        let mut texts = headers.filter_map(|value| value.to_str().ok());
        Ok(texts
            .find(|text| text.contains("resource_metadata"))
            .map(str::to_owned))
    }

    async fn send(
        &self,
        what: &'static str,
        url: &Url,
        request: RequestBuilder,
    ) -> Result<Response, OAuthError> {
        self.check_proxied_host(what, url).await?;
        let sent = request.timeout(LIMIT).send().await;
        let response = match sent {
            Ok(response) => response,
            Err(error) => {
                if let Some(NotPublic(kind)) = find::<NotPublic>(&error) {
                    return Err(refused(what, url, kind));
                }
                let proxy = self.network.explain_proxy_failure(url, &error).await;
                let direct = || format!("no answer from {}: {}", host(url), innermost_message(&error));
                return Err(endpoint(what, proxy.unwrap_or_else(direct)));
            }
        };
        if response.status().is_redirection() {
            return Err(endpoint(
                what,
                format!("{} redirects, which is not followed", host(url)),
            ));
        }
        Ok(response)
    }

    /// Checks a name that a proxy will look up, since the client's own resolver does not see it.
    async fn check_proxied_host(&self, what: &'static str, url: &Url) -> Result<(), OAuthError> {
        let Some(Host::Domain(name)) = url.host() else {
            return Ok(());
        };
        if self.network.find_proxy(url).is_none() || url.host() == self.policy.server().host() {
            return Ok(());
        }
        if self.network.proxy_hosts().iter().any(|proxy| proxy == name) {
            return Err(refused(what, url, "its host is the proxy"));
        }
        let looked_up = clock::timeout(LOOK_UP, tokio::net::lookup_host((name, 0))).await;
        let found = looked_up.ok().and_then(Result::ok);
        let mut addresses = found.into_iter().flatten();
        match addresses.find_map(|address| not_public(address.ip())) {
            Some(kind) => Err(refused(what, url, kind)),
            None => Ok(()),
        }
    }

    async fn get_or_build(&self) -> Result<&reqwest::Client, OAuthError> {
        let build = async {
            let network = self.network.clone();
            let mut chosen = network.proxy_hosts();
            chosen.extend(self.policy.server().host_str().map(str::to_owned));
            // Reading the system's roots takes several milliseconds.
            let built = tokio::task::spawn_blocking(move || build(&network, chosen)).await;
            built.unwrap_or_else(|error| Err(OAuthError::Local(error.to_string())))
        };
        self.client.get_or_try_init(|| build).await
    }
}

fn build(network: &NetworkSettings, chosen: Vec<String>) -> Result<reqwest::Client, OAuthError> {
    let tls = tls::build_client_config(network.ca_file.as_deref())
        .map_err(|error| OAuthError::Local(error.to_string()))?;
    // GitHub's token endpoint answers with a form unless JSON is accepted.
    let headers = [(ACCEPT, HeaderValue::from_static("application/json"))];
    let builder = reqwest::Client::builder()
        .default_headers(headers.into_iter().collect())
        .tls_backend_preconfigured(tls)
        .http1_only()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .pool_max_idle_per_host(0)
        .user_agent(concat!("agentls/", env!("CARGO_PKG_VERSION")))
        .dns_resolver(std::sync::Arc::new(PublicResolver::new(chosen)));
    // The proxy's address may contain a password.
    let wrong = |error: reqwest::Error| OAuthError::Local(innermost_message(&error.without_url()));
    let builder = network.add_proxies(builder).map_err(wrong)?;
    builder.build().map_err(wrong)
}

async fn read_body(what: &'static str, mut response: Response) -> Result<(StatusCode, Vec<u8>), OAuthError> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > MAX_BODY => {
                return Err(endpoint(
                    what,
                    format!("its answer is longer than {} KiB", MAX_BODY / 1024),
                ));
            }
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok((response.status(), body)),
            Err(error) => return Err(endpoint(what, innermost_message(&error.without_url()))),
        }
    }
}

/// Parses a JSON document. The error never quotes it, since it may contain tokens.
pub(super) fn parse_body<T: DeserializeOwned>(what: &'static str, body: &[u8]) -> Result<T, OAuthError> {
    serde_json::from_slice(body).map_err(|error| {
        let problem = match error.classify() {
            serde_json::error::Category::Data => "its answer has the wrong form",
            _ => "its answer is not JSON",
        };
        endpoint(what, problem.to_owned())
    })
}

/// Returns the error of a refusal, with the standard fields of an OAuth error if the body has them.
pub(super) fn bad_status(what: &'static str, status: StatusCode, body: &[u8]) -> OAuthError {
    read_refusal(body)
        .unwrap_or_else(|| endpoint(what, format!("it answered with status {}", status.as_u16())))
}

/// Reads the standard fields of an OAuth error.
pub(super) fn read_refusal(body: &[u8]) -> Option<OAuthError> {
    #[derive(serde::Deserialize)]
    struct Refusal {
        error: String,
        error_description: Option<String>,
    }
    let refusal: Refusal = serde_json::from_slice(body).ok()?;
    let description = refusal.error_description.as_deref();
    Some(OAuthError::Denied(describe_refusal(&refusal.error, description)))
}

/// Returns the code and the description of an OAuth error in one safe line.
pub(super) fn describe_refusal(code: &str, description: Option<&str>) -> String {
    let text = match description {
        Some(description) => format!("{code} ({description})"),
        None => code.to_owned(),
    };
    crate::base::text::one_line(&crate::base::text::reveal_hidden_characters(&text), 300)
}

pub(super) fn endpoint(what: &'static str, why: String) -> OAuthError {
    OAuthError::Endpoint { what, why }
}

fn refused(what: &'static str, url: &Url, why: &'static str) -> OAuthError {
    OAuthError::Refused {
        what,
        url: url.to_string(),
        why,
    }
}

fn host(url: &Url) -> &str {
    url.host_str().unwrap_or_default()
}
