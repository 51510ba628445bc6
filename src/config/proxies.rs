//! The proxies of `[network]`: which requests use one, and how a failure names it.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use secrecy::ExposeSecret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::{Host, Url};

use super::settings::{NetworkSettings, ProxyAddress};
use crate::base::clock;
use crate::base::error_chain::{find, innermost_message};
use crate::base::text::{one_line, reveal_hidden_characters};

/// How long a proxy may take to repeat the status with which it refused.
const TUNNEL_TIMEOUT: Duration = Duration::from_secs(5);

/// What the HTTP client says if it cannot even reach the proxy of a tunnel.
const NO_TUNNEL: &str = "tunnel error: failed to create underlying connection";

/// To a proxy, these names mean the proxy itself.
const NEVER_PROXIED: &str = "localhost,127.0.0.0/8,::1";

impl ProxyAddress {
    /// Names the proxy without its password, and where it is set.
    pub fn describe(&self) -> String {
        let url = Url::parse(self.url.expose_secret()).ok();
        let host = url
            .as_ref()
            .and_then(Url::host_str)
            .unwrap_or("with an unusable address");
        let port = url.as_ref().and_then(Url::port_or_known_default);
        let port = port.map_or_else(String::new, |port| format!(":{port}"));
        format!("the proxy {host}{port} ({})", self.set_by)
    }

    /// Returns the status with which the proxy has refused a tunnel to `target`, which the HTTP client drops: asks an
    /// `http:` proxy once more. `None` if `error` is another one.
    pub async fn read_tunnel_refusal(&self, target: &Url, error: &reqwest::Error) -> Option<String> {
        if innermost_message(error) != "tunnel error: unsuccessful" {
            return None;
        }
        let status = self.ask_for_tunnel(target);
        clock::timeout(TUNNEL_TIMEOUT, status).await.ok().flatten()
    }

    async fn ask_for_tunnel(&self, target: &Url) -> Option<String> {
        let url = Url::parse(self.url.expose_secret()).ok()?;
        if url.scheme() != "http" || !url.username().is_empty() {
            return None;
        }
        let address = (url.host_str()?, url.port_or_known_default()?);
        let mut stream = TcpStream::connect(address).await.ok()?;
        let host = format!("{}:{}", target.host_str()?, target.port_or_known_default()?);
        let request = format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        while !answer.contains(&b'\n') && answer.len() < 1024 {
            if stream.read_buf(&mut answer).await.ok()? == 0 {
                break;
            }
        }
        let answer = String::from_utf8_lossy(&answer);
        let (_, status) = answer.lines().next()?.split_once(' ')?;
        let status = one_line(&reveal_hidden_characters(status), 100);
        Some(format!("it answered {status}"))
    }

    /// Says how the proxy failed for a request to `target`; `None` if `error` is not the proxy's. The HTTP client does not
    /// tell the status with which a proxy refused, so the caller may pass it.
    pub fn explain_failure(
        &self,
        target: &Url,
        error: &reqwest::Error,
        status: Option<&str>,
    ) -> Option<String> {
        let (proxy, host) = (self.describe(), describe_host(target));
        let reason = innermost_message(error);
        match reason.strip_prefix("tunnel error: ") {
            Some("proxy authorization required") => return Some(self.explain_authentication()),
            Some(reason) => {
                let reason = status.unwrap_or(reason);
                return Some(format!("{proxy} did not connect to {host}: {reason}"));
            }
            None => {}
        }
        if let Some(tls) = find::<rustls::Error>(error) {
            return self.explain_tls_failure(target, error, tls);
        }
        if !error.is_connect() {
            return None;
        }
        if error.is_timeout() {
            let hint = self.suggest_scheme();
            return Some(format!(
                "connecting to {host} through {proxy} took too long{hint}"
            ));
        }
        let is_refusal =
            find::<io::Error>(error).is_some_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
        Some(if is_refusal {
            format!("{proxy} refused the connection")
        } else {
            format!("no answer from {proxy}: {reason}{}", self.suggest_scheme())
        })
    }

    /// Says how an encrypted connection to the proxy itself failed; `None` if it was the one to `target`, within a tunnel.
    fn explain_tls_failure(
        &self,
        target: &Url,
        error: &reqwest::Error,
        tls: &rustls::Error,
    ) -> Option<String> {
        let url = Url::parse(self.url.expose_secret()).ok()?;
        let mut causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
        let is_own = target.scheme() == "http" || causes.any(|cause| cause.to_string() == NO_TUNNEL);
        if url.scheme() != "https" || !is_own {
            return None;
        }
        let proxy = self.describe();
        Some(match tls {
            rustls::Error::InvalidMessage(_) => format!(
                "{proxy} does not speak TLS, although its address begins with https{}",
                self.suggest_scheme()
            ),
            rustls::Error::General(reason) => format!("TLS connection to {proxy} failed: {reason}"),
            other => format!("TLS connection to {proxy} failed: {other}"),
        })
    }

    /// Continues a failure with what to change if the proxy was meant to be reached without TLS.
    fn suggest_scheme(&self) -> String {
        let is_https = Url::parse(self.url.expose_secret()).is_ok_and(|url| url.scheme() == "https");
        if is_https {
            format!("; if it speaks plain HTTP, write http:// in {}", self.set_by)
        } else {
            String::new()
        }
    }

    /// Says that the proxy wants a user name and a password, or others.
    pub fn explain_authentication(&self) -> String {
        let url = Url::parse(self.url.expose_secret()).ok();
        let has_user = url.is_some_and(|url| !url.username().is_empty());
        let verb = if has_user {
            "rejects the user name or password in"
        } else {
            "asks for a user name and password in"
        };
        format!("{} {verb} {}", self.describe(), self.set_by)
    }

    /// Returns what to do about a failure.
    pub fn suggest_action(&self, host: &str) -> String {
        format!(
            "check {}, or add {host} to NO_PROXY to reach it without the proxy",
            self.set_by
        )
    }
}

impl NetworkSettings {
    /// Returns the proxy through which a URL is requested. This machine is always reached directly.
    pub fn find_proxy(&self, url: &Url) -> Option<&ProxyAddress> {
        let proxy = match url.scheme() {
            "https" => &self.https_proxy,
            _ => &self.http_proxy,
        };
        let direct = [NEVER_PROXIED, self.no_proxy.as_deref().unwrap_or_default()];
        proxy
            .as_ref()
            .filter(|_| !direct.iter().any(|list| bypasses_proxy(list, url)))
    }

    /// Says how the proxy of a URL failed; `None` if it has none, or if `error` is not the proxy's.
    pub async fn explain_proxy_failure(&self, url: &Url, error: &reqwest::Error) -> Option<String> {
        let host = url.host_str().unwrap_or_default();
        let proxy = self.find_proxy(url)?;
        let status = proxy.read_tunnel_refusal(url, error).await;
        let failure = proxy.explain_failure(url, error, status.as_deref())?;
        Some(format!("{failure}; {}", proxy.suggest_action(host)))
    }

    /// Returns the hosts of all proxies.
    pub fn proxy_hosts(&self) -> Vec<String> {
        let proxies = [&self.https_proxy, &self.http_proxy];
        let urls = proxies.into_iter().flatten();
        urls.filter_map(|proxy| Some(Url::parse(proxy.url.expose_secret()).ok()?.host_str()?.to_owned()))
            .collect()
    }

    /// Adds the proxies to a client.
    ///
    /// # Errors
    /// Fails if a proxy's address is unusable. The error may contain it: remove the URL before you show it.
    pub fn add_proxies(&self, builder: reqwest::ClientBuilder) -> reqwest::Result<reqwest::ClientBuilder> {
        // Checked here, because a client would ignore an unusable address later and connect directly.
        for proxy in [&self.https_proxy, &self.http_proxy].into_iter().flatten() {
            reqwest::Proxy::all(proxy.url.expose_secret())?;
        }
        let network = self.clone();
        let find = move |url: &Url| Some(network.find_proxy(url)?.url.expose_secret().to_owned());
        // The configuration has already read the environment and takes precedence.
        Ok(builder.no_proxy().proxy(reqwest::Proxy::custom(find)))
    }
}

/// Returns the host of an address, with its port if that is not the usual one.
fn describe_host(url: &Url) -> String {
    let host = url.host_str().unwrap_or("?");
    url.port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Returns whether a list as in `NO_PROXY` contains the host of a URL. Understands what curl, Go, and Node do: `host` with
/// its subdomains, `.host`, `*.host`, `host:port`, addresses, networks such as `10.0.0.0/8`, and `*`.
fn bypasses_proxy(list: &str, url: &Url) -> bool {
    let entries = list.split([',', ' ', '\t']).filter(|entry| !entry.is_empty());
    entries
        .map(str::to_ascii_lowercase)
        .any(|entry| matches_entry(&entry, url))
}

fn matches_entry(entry: &str, url: &Url) -> bool {
    if entry == "*" {
        return true;
    }
    let (host, port) = split_port(entry);
    if port.is_some_and(|port| url.port_or_known_default() != Some(port)) {
        return false;
    }
    let address = match url.host() {
        Some(Host::Domain(name)) => {
            let host = host.strip_prefix('*').unwrap_or(host);
            let host = host.trim_matches('.');
            let parent = name.trim_end_matches('.').strip_suffix(host);
            return !host.is_empty()
                && parent.is_some_and(|parent| parent.is_empty() || parent.ends_with('.'));
        }
        Some(Host::Ipv4(address)) => IpAddr::V4(address),
        Some(Host::Ipv6(address)) => IpAddr::V6(address),
        None => return false,
    };
    let (network, length) = match host.split_once('/') {
        Some((network, length)) => (network, length.parse().ok()),
        None => (host, Some(128)),
    };
    match (network.parse(), length) {
        (Ok(network), Some(length)) => is_in_network(address, network, length),
        _ => false,
    }
}

/// Splits `host:port`. An IPv6 address has a port only behind brackets.
fn split_port(entry: &str) -> (&str, Option<u16>) {
    if let Some((host, rest)) = entry.strip_prefix('[').and_then(|entry| entry.split_once(']')) {
        return (host, rest.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    match entry.split_once(':') {
        Some((host, port)) if !port.contains(':') => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (entry, None),
        },
        _ => (entry, None),
    }
}

fn is_in_network(address: IpAddr, network: IpAddr, length: u32) -> bool {
    let (address, network, size) = match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            (address.to_bits().into(), network.to_bits().into(), 32)
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => (address.to_bits(), network.to_bits(), 128),
        _ => return false,
    };
    let differing: u128 = address ^ network;
    differing.checked_shr(size - length.min(size)).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_proxy_lists_are_read_as_curl_go_and_node_read_them() {
        for (list, url, expected) in [
            ("corp.example", "https://corp.example", true),
            ("corp.example", "https://llm.corp.example", true),
            ("corp.example", "https://notcorp.example", false),
            (".corp.example", "https://llm.corp.example", true),
            (".corp.example", "https://notcorp.example", false),
            ("*.corp.example", "https://llm.corp.example", true),
            ("*.corp.example", "https://a.b.corp.example", true),
            ("*.corp.example", "https://notcorp.example", false),
            ("*.corp.example", "https://corp.example.org", false),
            ("*corp.example", "https://llm.corp.example", true),
            ("Corp.Example.", "https://LLM.corp.example.", true),
            ("llm.corp.example:8080", "http://llm.corp.example:8080", true),
            ("llm.corp.example:8080", "http://llm.corp.example", false),
            ("llm.corp.example:443", "https://llm.corp.example", true),
            ("*.corp.example:8080", "http://llm.corp.example:8080", true),
            ("a, b  corp.example", "https://corp.example", true),
            ("*", "https://corp.example", true),
            ("*.", "https://corp.example", false),
            (".", "https://corp.example", false),
            ("", "https://corp.example", false),
            ("10.0.0.0/8", "http://10.1.2.3", true),
            ("10.0.0.0/8", "http://11.1.2.3", false),
            ("10.0.0.0/0", "http://11.1.2.3", true),
            ("10.1.2.3", "http://10.1.2.3:99", true),
            ("10.1.2.3:99", "http://10.1.2.3:99", true),
            ("10.1.2.3:98", "http://10.1.2.3:99", false),
            ("10.1.2", "http://10.1.2.3", false),
            ("10.0.0.0/x", "http://10.0.0.0", false),
            ("fd00::/8", "http://[fd00::1]", true),
            ("[fd00::1]:80", "http://[fd00::1]", true),
            ("[fd00::1]:81", "http://[fd00::1]", false),
            ("::1", "http://[::1]", true),
            ("::/0", "http://10.0.0.0", false),
            (NEVER_PROXIED, "http://127.3.2.1", true),
            (NEVER_PROXIED, "http://a.localhost:1", true),
            (NEVER_PROXIED, "http://[::1]:1", true),
        ] {
            let parsed = Url::parse(url).unwrap();
            assert_eq!(bypasses_proxy(list, &parsed), expected, "{list:?} {url}");
        }
    }

    #[test]
    fn a_proxy_is_named_without_its_password() {
        let proxy = |url: &str| ProxyAddress {
            url: url.to_owned().into(),
            set_by: "HTTPS_PROXY",
        };
        let with_password = proxy("http://me:canary@proxy.corp.example:3128");
        assert_eq!(
            with_password.explain_authentication(),
            "the proxy proxy.corp.example:3128 (HTTPS_PROXY) rejects the user name or password in HTTPS_PROXY"
        );
        assert_eq!(proxy("http://p").describe(), "the proxy p:80 (HTTPS_PROXY)");
    }
}
