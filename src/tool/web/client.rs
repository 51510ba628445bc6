//! The HTTP client of `web_fetch`. It requests one address and follows redirects on the same host. It connects only to
//! public addresses, unless the user has named the host.
//!
//! The check applies to the address that is connected to: the guard is the resolver of the connection itself. So a name
//! that resolves to another address the second time leads nowhere. Must not read bodies or know tools.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, LOCATION};
use tokio::sync::OnceCell;
use url::{Host, Url};

use crate::base::address::not_public;
use crate::base::clock;
use crate::base::error_chain::{find, innermost_message};
use crate::base::public_resolver::{NotPublic, PublicResolver, is_local_name};
use crate::base::text::{one_line, reveal_hidden_characters};
use crate::base::tls::{self, TlsError};
use crate::config::NetworkSettings;

/// Time limit for connecting.
const CONNECT: Duration = Duration::from_secs(10);
/// Time limit for the next piece of a response. The tool limits the whole call.
const PIECE: Duration = Duration::from_secs(20);
/// Time limit for looking up a name before a proxy is asked to.
const LOOK_UP: Duration = Duration::from_secs(2);
/// Most redirects followed.
const REDIRECTS: usize = 5;
/// Accepted content, best first.
const WANTED: &str = "text/markdown, text/html;q=0.9, text/plain;q=0.9, application/json;q=0.8, */*;q=0.5";

/// Access to the web. Builds its clients on first use.
#[derive(Debug, Default)]
pub(in crate::tool) struct Web {
    network: NetworkSettings,
    /// `host` or `host:port` that may be read although it is not public.
    private_hosts: Vec<String>,
    guarded: OnceCell<reqwest::Client>,
    /// For hosts that the user has named.
    open: OnceCell<reqwest::Client>,
}

/// The result of a request.
pub(in crate::tool) enum FetchResult {
    Answer {
        /// The address that answered after all redirects.
        url: Url,
        /// The body has not been read.
        response: reqwest::Response,
    },
    /// A redirect to another host, which nobody has approved.
    Elsewhere(Url),
}

/// The reason why nothing was fetched, for the model.
#[derive(Debug, thiserror::Error)]
pub(in crate::tool) enum FetchError {
    /// The address is not public, and the user has not named it.
    #[error(
        "{host} is {what}; only public addresses are fetched. The user can allow it with [tool.web_fetch] private_hosts"
    )]
    Private {
        host: String,
        /// What kind of address it is.
        what: &'static str,
    },
    #[error("more than {REDIRECTS} redirects, the last one to {0}")]
    Redirects(Url),
    /// A redirect with a missing or unusable target.
    #[error("{0} redirects to an invalid address: {1}")]
    Location(Url, String),
    /// No connection, or no response.
    #[error("{0}")]
    NoAnswer(String),
    /// TLS could not be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The HTTP client could not be built.
    #[error("no HTTP client: {0}")]
    Client(String),
}

impl Web {
    /// Creates access to the web as `network` says; of hosts that are not public, only `private_hosts` may be read.
    pub(in crate::tool) fn new(network: NetworkSettings, private_hosts: Vec<String>) -> Self {
        Self {
            network,
            private_hosts,
            guarded: OnceCell::new(),
            open: OnceCell::new(),
        }
    }

    /// Requests `url`, and what it redirects to on the same host.
    ///
    /// # Errors
    /// The address is not public, redirects badly or too often, or does not answer; see [`FetchError`].
    pub(in crate::tool) async fn get(&self, url: &Url) -> Result<FetchResult, FetchError> {
        let mut url = url.clone();
        for _ in 0..=REDIRECTS {
            let response = self.send_request(&url).await?;
            let Some(next) = parse_redirect(&url, &response)? else {
                return Ok(FetchResult::Answer { url, response });
            };
            // Another host needs an approval of its own.
            if !same_site(&url, &next) {
                return Ok(FetchResult::Elsewhere(next));
            }
            url = next;
        }
        Err(FetchError::Redirects(url))
    }

    async fn send_request(&self, url: &Url) -> Result<reqwest::Response, FetchError> {
        // A resolver belongs to a client, so there are two clients.
        let client = if self.is_named(url) {
            self.open.get_or_try_init(|| self.build(None)).await?
        } else {
            // Checked for every hop: a redirect could lead to a private address too.
            self.check_public_host(url).await?;
            // No page may name a proxy: see `check_public_host`.
            let guard = PublicResolver::new(self.network.proxy_hosts());
            self.guarded.get_or_try_init(|| self.build(Some(guard))).await?
        };
        let request = client
            .get(url.clone())
            .header(ACCEPT, WANTED)
            .header(ACCEPT_ENCODING, "gzip")
            .header(ACCEPT_LANGUAGE, "en, *;q=0.5");
        match request.send().await {
            Ok(response) => Ok(response),
            Err(error) => {
                let proxy = self.network.explain_proxy_failure(url, &error).await;
                Err(proxy.map_or_else(|| no_answer(url, &error), FetchError::NoAnswer))
            }
        }
    }

    /// Returns whether the user has named the host.
    fn is_named(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else { return false };
        let port = url.port_or_known_default().unwrap_or_default();
        let with_port = format!("{host}:{port}");
        self.private_hosts
            .iter()
            .any(|named| *named == host || *named == with_port)
    }

    /// Checks what the guard does not see: a host that is already an address, and names that a proxy looks up.
    async fn check_public_host(&self, url: &Url) -> Result<(), FetchError> {
        let private = |kind| FetchError::Private {
            host: url.host_str().unwrap_or_default().to_owned(),
            what: kind,
        };
        let kind = match url.host() {
            Some(Host::Ipv4(address)) => not_public(address.into()),
            Some(Host::Ipv6(address)) => not_public(address.into()),
            Some(Host::Domain(name)) if self.network.find_proxy(url).is_some() => {
                // The guard lets the proxy's own name through, so no page may use it.
                if is_local_name(name) || self.network.proxy_hosts().iter().any(|proxy| proxy == name) {
                    return Err(private("a name of this machine or a private network"));
                }
                let looked_up = clock::timeout(LOOK_UP, tokio::net::lookup_host((name, 0)));
                // A name that only the proxy can resolve is up to the proxy.
                let found = looked_up.await.ok().and_then(Result::ok);
                found
                    .into_iter()
                    .flatten()
                    .find_map(|found| not_public(found.ip()))
            }
            Some(Host::Domain(_)) | None => None,
        };
        kind.map_or(Ok(()), |kind| Err(private(kind)))
    }

    async fn build(&self, guard: Option<PublicResolver>) -> Result<reqwest::Client, FetchError> {
        let network = self.network.clone();
        // Reading the system's roots takes several milliseconds.
        let built = tokio::task::spawn_blocking(move || build(&network, guard)).await;
        built.unwrap_or_else(|error| Err(FetchError::Client(error.to_string())))
    }
}

fn build(network: &NetworkSettings, guard: Option<PublicResolver>) -> Result<reqwest::Client, FetchError> {
    let mut builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls::build_client_config(network.ca_file.as_deref())?)
        .http1_only()
        // Redirects are followed here instead, since each target must be checked.
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .connect_timeout(CONNECT)
        .read_timeout(PIECE)
        // Pages leave nothing behind: no cookies, no connection.
        .pool_max_idle_per_host(0)
        .user_agent(concat!("agentls/", env!("CARGO_PKG_VERSION")));
    if let Some(guard) = guard {
        builder = builder.dns_resolver(Arc::new(guard));
    }
    let wrong = |error: reqwest::Error| FetchError::Client(innermost_message(&error.without_url()));
    let builder = network.add_proxies(builder).map_err(wrong)?;
    builder.build().map_err(wrong)
}

/// Returns the target of a redirect.
fn parse_redirect(url: &Url, response: &reqwest::Response) -> Result<Option<Url>, FetchError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = response.headers().get(LOCATION) else {
        return Ok(None);
    };
    let written = String::from_utf8_lossy(location.as_bytes()).into_owned();
    let wrong = || FetchError::Location(url.clone(), one_line(&reveal_hidden_characters(&written), 200));
    let mut next = url.join(&written).map_err(|_| wrong())?;
    next.set_fragment(None);
    let readable = matches!(next.scheme(), "http" | "https")
        && next.has_host()
        && next.username().is_empty()
        && next.password().is_none();
    readable.then_some(Some(next)).ok_or_else(wrong)
}

/// Returns whether an approval of one address covers the other: same host and port, and no downgrade to plain text.
fn same_site(from: &Url, to: &Url) -> bool {
    let port = |url: &Url| url.port_or_known_default();
    let upgrade =
        from.scheme() == "http" && to.scheme() == "https" && from.port().is_none() && to.port().is_none();
    from.host() == to.host() && (upgrade || (from.scheme() == to.scheme() && port(from) == port(to)))
}

fn no_answer(url: &Url, error: &reqwest::Error) -> FetchError {
    let host = url.host_str().unwrap_or_default();
    if let Some(NotPublic(kind)) = find::<NotPublic>(error) {
        return FetchError::Private {
            host: host.to_owned(),
            what: kind,
        };
    }
    FetchError::NoAnswer(match (find::<rustls::Error>(error), error.is_timeout()) {
        (Some(rustls::Error::General(message)), _) => {
            format!("TLS connection to {host} failed: {message}")
        }
        (Some(tls), _) => format!("TLS connection to {host} failed: {tls}"),
        (None, true) if error.is_connect() => {
            format!("connecting to {host} took longer than {} s", CONNECT.as_secs())
        }
        (None, true) => format!("{host} did not answer for {} s", PIECE.as_secs()),
        (None, false) => format!("no answer from {host}: {}", innermost_message(error)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn an_approval_covers_only_the_same_host() {
        for (from, to, same) in [
            ("https://a.org/x", "https://a.org/y?z", true),
            ("http://a.org/", "https://a.org/", true),
            ("https://a.org/", "http://a.org/", false),
            ("https://a.org/", "https://www.a.org/", false),
            ("https://a.org/", "https://a.org:8443/", false),
            ("http://a.org:81/", "https://a.org/", false),
            ("http://127.0.0.1:1/", "http://127.0.0.1:2/", false),
        ] {
            assert_eq!(same_site(&url(from), &url(to)), same, "{from} {to}");
        }
    }

    #[tokio::test]
    async fn hosts_that_are_addresses_are_checked_in_every_notation() {
        let web = Web::new(
            NetworkSettings::default(),
            vec!["localhost:3000".to_owned(), "10.0.0.5".to_owned()],
        );
        for (address, expected) in [
            ("http://127.0.0.1/", "this machine"),
            ("http://2130706433/", "this machine"),
            ("http://0x7f.1/", "this machine"),
            ("http://[::ffff:7f00:1]/", "this machine"),
            ("http://169.254.169.254/latest/meta-data", "link-local"),
            ("http://10.0.0.6/", "in a private network"),
        ] {
            let error = web.get(&url(address)).await.err().unwrap().to_string();
            assert!(error.contains(expected), "{address}: {error}");
        }
        assert!(web.is_named(&url("http://10.0.0.5:81/")) && web.is_named(&url("http://localhost:3000/")));
        assert!(!web.is_named(&url("http://localhost/")));
        // A name for this machine, seen by the connection's own resolver.
        let error = web
            .get(&url("http://localhost:9/"))
            .await
            .err()
            .unwrap()
            .to_string();
        assert!(error.starts_with("localhost is this machine"), "{error}");
    }

    #[tokio::test]
    async fn behind_a_proxy_private_names_are_refused_too() {
        let network = NetworkSettings {
            http_proxy: Some(crate::config::ProxyAddress {
                url: "http://proxy.example.com:3128".into(),
                set_by: "http_proxy",
            }),
            ..NetworkSettings::default()
        };
        let web = Web::new(network, Vec::new());
        for address in [
            "http://localhost/",
            "http://wiki/",
            "http://metadata.google.internal/",
            "http://printer.local./",
            "http://proxy.example.com/",
        ] {
            let error = web.get(&url(address)).await.err().unwrap().to_string();
            assert!(error.contains("only public addresses"), "{address}: {error}");
        }
    }
}
