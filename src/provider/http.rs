//! The HTTP client of one provider account: TLS, proxy and pooled connections, built at the first call (R-PROV-8).
//!
//! HTTP/1.1 only, so that each call has its own connection. Dropping the call closes it, a slow reader slows only
//! its own stream, and a dead connection does not block other calls. Redirects are not followed: an API does not
//! redirect, and a key must not go elsewhere. Knows no API and no response body; see `call` for those.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, Stream, StreamExt};
use secrecy::ExposeSecret;
use tokio::sync::OnceCell;

use super::account::ProviderAccount;
use super::error::{Failure, ProviderFault, TimeoutPhase};
use crate::base::clock;
use crate::base::error_chain::{find, innermost_message};
use crate::base::spawn::{AbortOnDrop, spawn};
use crate::base::tls::{self, TlsError};
use crate::config::ProxyAddress;

/// The body of a response, as it arrives.
pub(crate) type BodyStream = Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>;

/// How long to read the rest of a finished answer, so that its connection can be reused.
const READ_ON: Duration = Duration::from_millis(50);

/// The most finished answers whose rest is read concurrently. Also the most idle connections in the pool.
const MAX_DRAINS: usize = 32;

/// How to reach a provider.
#[derive(Clone, Debug)]
pub(crate) struct HttpSettings {
    /// A PEM file with additional root certificates.
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) proxy: Option<ProxyAddress>,
    /// The time limit for connecting.
    pub(crate) connect: Duration,
}

/// The client of one account, built when the first call needs it.
#[derive(Debug)]
pub(crate) struct Http {
    account: Arc<ProviderAccount>,
    settings: HttpSettings,
    client: OnceCell<reqwest::Client>,
    reading_on: Mutex<Vec<AbortOnDrop<()>>>,
}

impl Http {
    /// Creates the client's holder without building the client.
    pub(crate) fn new(account: Arc<ProviderAccount>, settings: HttpSettings) -> Arc<Self> {
        Arc::new(Self {
            account,
            settings,
            client: OnceCell::new(),
            reading_on: Mutex::default(),
        })
    }

    /// Returns the client. Reading the system's root certificates takes some milliseconds, so it happens once, on a
    /// blocking thread.
    ///
    /// # Errors
    ///
    /// Fails if the certificates or the proxy's address are unusable.
    pub(crate) async fn get_or_build_client(&self) -> Result<reqwest::Client, Failure> {
        let build = async {
            let (account, settings) = (self.account.clone(), self.settings.clone());
            if account.base.scheme() == "http" && settings.proxy.is_none() {
                // Nothing slow to load without TLS.
                return build(&account, &settings);
            }
            let built = tokio::task::spawn_blocking(move || build(&account, &settings)).await;
            built.unwrap_or_else(|error| Err(Failure::new(ProviderFault::Local, error.to_string())))
        };
        // A failed build is not kept, so a corrected `ca_file` works at the next call.
        self.client.get_or_try_init(|| build).await.cloned()
    }

    /// Sends a request of the client.
    ///
    /// # Errors
    ///
    /// No response begins.
    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> reqwest::Result<reqwest::Response> {
        #[cfg(test)]
        if let Some(connect) = super::testing::find_server(&self.account.base) {
            return super::testing::send(&connect, request).await;
        }
        request.send().await
    }

    /// Classifies a request that got no response.
    pub(crate) async fn explain_no_response(&self, error: &reqwest::Error) -> Failure {
        let Some(proxy) = &self.settings.proxy else {
            return no_response(&self.account, self.settings.connect, error);
        };
        let status = proxy.read_tunnel_refusal(&self.account.base, error).await;
        match proxy.explain_failure(&self.account.base, error, status.as_deref()) {
            Some(message) => {
                let host = self.account.base.host_str().unwrap_or_default();
                Failure::new(ProviderFault::Connection, message).with_user_action(proxy.suggest_action(host))
            }
            None => no_response(&self.account, self.settings.connect, error),
        }
    }

    /// Returns the failure if a proxy that sees the request, and not the provider, has answered with this status.
    pub(crate) fn explain_proxy_status(&self, status: u16) -> Option<Failure> {
        let proxy = self.settings.proxy.as_ref().filter(|_| status == 407)?;
        let host = self.account.base.host_str().unwrap_or_default();
        let failure = Failure::new(ProviderFault::Connection, proxy.explain_authentication());
        Some(failure.with_user_action(proxy.suggest_action(host)))
    }

    /// Reads the rest of a finished answer for at most [`READ_ON`], so that its connection returns to the pool instead
    /// of being closed. All readers end with this client.
    pub(crate) fn drain_body(&self, mut body: BodyStream) {
        let mut rest = Box::pin(async move { while let Some(Ok(_)) = body.next().await {} });
        // Usually the end of the body has arrived with the last event, so no task is needed.
        if (&mut rest).now_or_never().is_some() {
            return;
        }
        let mut readers = self.reading_on.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|reader| !reader.is_finished());
        // Beyond the bound the body is dropped, which only costs its connection.
        if readers.len() < MAX_DRAINS {
            readers.push(spawn(async move {
                let _ = clock::timeout(READ_ON, rest).await;
            }));
        }
    }
}

fn build(account: &ProviderAccount, settings: &HttpSettings) -> Result<reqwest::Client, Failure> {
    let config = build_tls_config(account, settings)?;
    let mut builder = reqwest::Client::builder()
        .tls_backend_preconfigured(config)
        .http1_only()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .connect_timeout(settings.connect)
        .tcp_keepalive(Duration::from_secs(30))
        .pool_idle_timeout(Duration::from_secs(90))
        .pool_max_idle_per_host(MAX_DRAINS)
        .user_agent(concat!("agentls/", env!("CARGO_PKG_VERSION")))
        // Ignores the environment here: the configuration has already read it and may override it.
        .no_proxy();
    if let Some(proxy) = &settings.proxy {
        let client_proxy = reqwest::Proxy::all(proxy.url.expose_secret()).map_err(|error| {
            Failure::new(
                ProviderFault::Local,
                // The proxy's address may contain a password.
                format!("{} is not usable: {}", proxy.describe(), error.without_url()),
            )
            .with_user_action(format!("check {}", proxy.set_by))
        })?;
        builder = builder.proxy(client_proxy);
    }
    builder.build().map_err(|error| {
        Failure::new(
            ProviderFault::Local,
            format!("no HTTP client: {}", innermost_message(&error)),
        )
    })
}

fn build_tls_config(
    account: &ProviderAccount,
    settings: &HttpSettings,
) -> Result<rustls::ClientConfig, Failure> {
    // Without encryption no root certificates are needed. A proxy may itself use TLS.
    let config = if account.base.scheme() == "http" && settings.proxy.is_none() {
        tls::without_roots()
    } else {
        tls::build_client_config(settings.ca_file.as_deref())
    };
    config.map_err(|error| {
        let failure = Failure::new(ProviderFault::Local, error.to_string());
        match error {
            TlsError::CaFile { .. } => {
                failure.with_user_action("set ca_file to a PEM file with certificates")
            }
            TlsError::Versions(_) | TlsError::Roots(_) | TlsError::RootVariables(_) => failure,
        }
    })
}

/// Classifies a request that got no response, and for which no proxy is to blame.
fn no_response(account: &ProviderAccount, connect: Duration, error: &reqwest::Error) -> Failure {
    let host = account.host_and_port();
    if let Some(tls) = find::<rustls::Error>(error) {
        // rustls presents our verifier's message as an unexpected error, so only the message is taken.
        let reason = match tls {
            rustls::Error::General(reason) => reason.clone(),
            other => other.to_string(),
        };
        let message = format!("TLS connection to {host} failed: {reason}");
        let action = match tls {
            // The server answered the handshake in plain text.
            rustls::Error::InvalidMessage(_) => {
                format!(
                    "does it support https? check [provider.{}] base_url",
                    account.name
                )
            }
            _ => "if your network inspects traffic, set ca_file to the PEM file of its root certificate"
                .to_owned(),
        };
        return Failure::new(ProviderFault::Tls, message).with_user_action(action);
    }
    if error.is_timeout() {
        let limit = connect.as_secs_f64();
        let message = format!("connecting to {host} took longer than {limit} s");
        return Failure::new(ProviderFault::TimedOut(TimeoutPhase::Connect), message);
    }
    let refused = find::<io::Error>(error).is_some_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
    let failure = if refused {
        Failure::new(
            ProviderFault::Connection,
            format!("{host} refused the connection"),
        )
    } else {
        Failure::new(
            ProviderFault::Connection,
            format!("no answer from {host}: {}", innermost_message(error)),
        )
    };
    match (account.is_ollama(), account.is_local()) {
        (true, _) => failure.with_user_action("is Ollama running? start it with `ollama serve`"),
        (false, true) => failure.with_user_action(format!("is the server at {host} running?")),
        (false, false) => failure.with_user_action(format!(
            "check the network and [provider.{}] base_url",
            account.name
        )),
    }
}

/// Reports whether a body ended early. The original error describes chunk framing, which means nothing to users.
pub(super) fn is_early_end(error: &(dyn Error + 'static)) -> bool {
    find::<io::Error>(error).is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::super::account::tests::build_account;
    use super::*;
    use crate::config::ApiKind;

    /// Starts a proxy that answers every request with this status line. Returns its address.
    fn refusing_proxy(status: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let mut line = String::new();
                while reader.read_line(&mut line).unwrap() > 2 {}
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                let _ = reader.get_mut().write_all(answer.as_bytes());
            }
        });
        address.to_string()
    }

    /// Returns what a call through a proxy fails with, without the proxy's own address.
    async fn fail_through(proxy: &str, login: &str) -> String {
        let account = Arc::new(build_account(
            "work",
            ApiKind::OpenAi,
            "https://llm.corp.example/v1",
        ));
        let settings = HttpSettings {
            ca_file: None,
            proxy: Some(ProxyAddress {
                url: format!("http://{login}{proxy}").into(),
                set_by: "HTTPS_PROXY",
            }),
            connect: Duration::from_secs(5),
        };
        let http = Http::new(account, settings);
        let client = http.get_or_build_client().await.unwrap();
        let error = client
            .get("https://llm.corp.example/v1")
            .send()
            .await
            .unwrap_err();
        let failure = http.explain_no_response(&error).await;
        let text = format!("{}; {}", failure.message, failure.user_action.unwrap_or_default());
        text.replace(proxy, "PROXY")
    }

    #[tokio::test]
    async fn failures_of_a_proxy_name_it_and_where_it_is_set() {
        let action = "check HTTPS_PROXY, or add llm.corp.example to NO_PROXY to reach it without the proxy";
        let refused = fail_through("127.0.0.1:1", "me:canary@").await;
        assert_eq!(
            refused,
            format!("the proxy PROXY (HTTPS_PROXY) refused the connection; {action}")
        );
        let unknown = fail_through("proxy.invalid:3128", "").await;
        assert!(
            unknown.starts_with("no answer from the proxy PROXY (HTTPS_PROXY): ")
                && unknown.ends_with(action),
            "{unknown}"
        );
        let forbidden = fail_through(&refusing_proxy("403 Forbidden by policy"), "").await;
        let expected = "the proxy PROXY (HTTPS_PROXY) did not connect to llm.corp.example: \
                        it answered 403 Forbidden by policy";
        assert_eq!(forbidden, format!("{expected}; {action}"));
        let asks = fail_through(&refusing_proxy("407 Who are you"), "").await;
        let expected = "the proxy PROXY (HTTPS_PROXY) asks for a user name and password in HTTPS_PROXY";
        assert_eq!(asks, format!("{expected}; {action}"));
        let rejects = fail_through(&refusing_proxy("407 Who are you"), "me:canary@").await;
        assert!(
            rejects.contains("rejects the user name or password") && !rejects.contains("canary"),
            "{rejects}"
        );
    }
}
