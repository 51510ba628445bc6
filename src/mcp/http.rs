//! The transport to a server that is an address: streamable HTTP, with the proxy and certificates of the settings.
//!
//! Redirects are not followed, because a token must not go elsewhere.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use secrecy::ExposeSecret;
use url::Url;

use super::authorize::{AuthorizedClient, EndReason};
use super::connection::McpError;
use super::stdio::MAX_MESSAGE;
use crate::base::error_chain::innermost_message;
use crate::base::tls;
use crate::base::web_address::hide_secrets;
use crate::config::{McpServerSettings, NetworkSettings, Redactor};
use crate::oauth::{OAuthClient, OAuthError, TokenSource};

/// Time limit for connecting.
const CONNECT: Duration = Duration::from_secs(10);

/// How the requests to a server are authorized.
pub(super) struct HttpAccess {
    /// The tokens of a login; `None` if requests are authorized in another way.
    pub(super) tokens: Option<Arc<TokenSource>>,
    pub(super) redactor: Redactor,
    pub(super) end_reason: EndReason,
    /// How long the answer to `server/discover` may take.
    pub(super) probe_limit: Option<Duration>,
}

/// Builds the transport. Contacts nobody yet.
///
/// # Errors
/// The address, a header, the proxy, or a certificate is unusable.
pub(super) async fn build_transport(
    server: &McpServerSettings,
    url: &str,
    network: &NetworkSettings,
    access: HttpAccess,
) -> Result<StreamableHttpClientTransport<AuthorizedClient>, McpError> {
    let address = Url::parse(url).map_err(|error| McpError::Failed(format!("unusable address: {error}")))?;
    let (target, proxies) = (address.clone(), network.clone());
    // Reading the system's certificates takes some milliseconds.
    let built = tokio::task::spawn_blocking(move || build_client(&target, &proxies)).await;
    let client = AuthorizedClient {
        http: built.map_err(|error| McpError::Failed(error.to_string()))??,
        address,
        network: network.clone(),
        tokens: access.tokens,
        redactor: access.redactor,
        unauthorized: explain_unauthorized(server),
        end_reason: access.end_reason,
        probe_limit: access.probe_limit,
        failed_resumes: Arc::default(),
        refuses_stream: Arc::default(),
        lost_session: Arc::default(),
    };
    let mut headers = HashMap::new();
    for (name, value) in &server.headers {
        let name = HeaderName::from_str(name)
            .map_err(|_| McpError::Failed(format!("{name:?} is not the name of a header")))?;
        let mut value = HeaderValue::from_str(value.expose_secret().trim())
            .map_err(|_| McpError::Failed(format!("the value of the header {name} is unusable")))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(headers)
        .max_sse_event_size(MAX_MESSAGE)
        .max_json_response_size(MAX_MESSAGE);
    if let Some(token) = &server.bearer_token {
        config = config.auth_header(token.expose_secret().trim());
    }
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Returns what it means that the server demands authorization. A login helps only if the settings allow one.
fn explain_unauthorized(server: &McpServerSettings) -> McpError {
    let mut headers = server.headers.keys();
    let refused = match &server.bearer_token_env {
        _ if server.login_address().is_some() => return McpError::NeedsLogin,
        Some(variable) => format!("the token of bearer_token_env {variable}"),
        None if headers.any(|name| name.eq_ignore_ascii_case("authorization")) => {
            "the token of the header Authorization".to_owned()
        }
        None => "requests without a token, and a login does not go together with the header Host".to_owned(),
    };
    McpError::Failed(format!("the server refuses {refused} (HTTP 401)"))
}

fn build_client(address: &Url, network: &NetworkSettings) -> Result<reqwest::Client, McpError> {
    let failed = |error: &dyn std::error::Error| McpError::Failed(format!("no HTTP client: {error}"));
    let tls = if address.scheme() == "http" && network.find_proxy(address).is_none() {
        tls::without_roots()
    } else {
        tls::build_client_config(network.ca_file.as_deref())
    };
    let builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls.map_err(|error| failed(&error))?)
        .http1_only()
        .redirect(reqwest::redirect::Policy::custom(|redirect| {
            let target = hide_secrets(redirect.url().as_str());
            redirect.error(format!(
                "the server redirects to {target}, which is not followed; if you trust that address, set it as its `url`"
            ))
        }))
        .referer(false)
        .connect_timeout(CONNECT)
        .user_agent(concat!("agentls/", env!("CARGO_PKG_VERSION")));
    let builder = network
        .add_proxies(builder)
        // Its address may contain a password.
        .map_err(|error| failed(&error.without_url()))?;
    builder
        .build()
        .map_err(|error| McpError::Failed(format!("no HTTP client: {}", innermost_message(&error))))
}

/// Returns the client for the login at a server.
///
/// # Errors
/// No token may be sent to the server's address.
pub(super) fn open_login_client(
    settings: &McpServerSettings,
    url: &Url,
    network: &NetworkSettings,
) -> Result<OAuthClient, OAuthError> {
    let client = OAuthClient::new(url, network.clone())?;
    Ok(client.with_credentials(settings.client_credentials()))
}
