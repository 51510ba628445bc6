//! Which addresses a login may use. Pure, except that names are checked when the client connects.

use url::{Host, Url};

use super::OAuthError;
use crate::base::address::not_public;
use crate::base::text::{one_line, reveal_hidden_characters};

/// Decides which URLs are acceptable for one server.
#[derive(Clone, Debug)]
pub(super) struct EndpointPolicy {
    server: Url,
}

impl EndpointPolicy {
    /// Creates the policy of a server that the user named.
    ///
    /// # Errors
    /// Fails if the server's own address is neither `https` nor on this machine.
    pub(super) fn new(server: &Url) -> Result<Self, OAuthError> {
        if server.scheme() != "https" && !is_loopback(server) {
            return Err(OAuthError::PlainServer(server.clone()));
        }
        Ok(Self {
            server: server.clone(),
        })
    }

    /// Returns the server that this policy protects.
    pub(super) fn server(&self) -> &Url {
        &self.server
    }

    /// Parses a URL from a document of a server. `what` names it in errors.
    ///
    /// # Errors
    /// Fails if a request there could reveal a secret, or reach what only this machine can reach.
    pub(super) fn parse(&self, what: &'static str, text: &str) -> Result<Url, OAuthError> {
        let refused = |why| OAuthError::Refused {
            what,
            url: one_line(&reveal_hidden_characters(text), 200),
            why,
        };
        let url = Url::parse(text).map_err(|_| refused("it is not a URL"))?;
        match self.find_problem(&url) {
            Some(why) => Err(refused(why)),
            None => Ok(url),
        }
    }

    fn find_problem(&self, url: &Url) -> Option<&'static str> {
        let Some(host) = url.host() else {
            return Some("it has no host");
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Some("it contains a user name");
        }
        if url.fragment().is_some() {
            return Some("it has a fragment");
        }
        let is_local = is_loopback(url) && is_loopback(&self.server);
        if url.scheme() != "https" && !(url.scheme() == "http" && is_local) {
            return Some("it is not https");
        }
        if is_local || url.host() == self.server.host() {
            return None;
        }
        let is_private = match host {
            Host::Ipv4(address) => not_public(address.into()).is_some(),
            Host::Ipv6(address) => not_public(address.into()).is_some(),
            Host::Domain(name) => crate::base::public_resolver::is_local_name(name),
        };
        is_private.then_some("its host is not public, and it is not the server's own")
    }
}

/// Returns whether a URL names this machine by a loopback address or `localhost`.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(server: &str, url: &str) -> String {
        let policy = EndpointPolicy::new(&Url::parse(server).unwrap()).unwrap();
        match policy.parse("token endpoint", url) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn endpoints_are_https_and_public() {
        for (server, url, expected) in [
            (
                "https://mcp.example.com/mcp",
                "https://auth.example.com/token",
                "",
            ),
            (
                "https://mcp.example.com/mcp",
                "http://auth.example.com/token",
                "not https",
            ),
            (
                "https://mcp.example.com/mcp",
                "http://mcp.example.com/token",
                "not https",
            ),
            (
                "https://mcp.example.com/mcp",
                "http://127.0.0.1/token",
                "not https",
            ),
            (
                "https://mcp.example.com/mcp",
                "https://127.0.0.1/token",
                "not public",
            ),
            (
                "https://mcp.example.com/mcp",
                "https://localhost/token",
                "not public",
            ),
            (
                "https://mcp.example.com/mcp",
                "https://10.0.0.1/token",
                "not public",
            ),
            (
                "https://mcp.example.com/mcp",
                "https://169.254.169.254/",
                "not public",
            ),
            ("https://mcp.example.com/mcp", "https://[fd00::1]/", "not public"),
            (
                "https://mcp.example.com/mcp",
                "https://metadata.google.internal/",
                "not public",
            ),
            (
                "https://mcp.example.com/mcp",
                "https://a:b@auth.example.com/",
                "user name",
            ),
            (
                "https://mcp.example.com/mcp",
                "https://auth.example.com/#x",
                "fragment",
            ),
            ("https://mcp.example.com/mcp", "file:///etc/passwd", "no host"),
            ("https://mcp.example.com/mcp", "auth", "not a URL"),
            // The user named this host.
            ("https://10.0.0.1/mcp", "https://10.0.0.1:8443/token", ""),
            ("https://10.0.0.1/mcp", "https://10.0.0.2/token", "not public"),
            ("http://127.0.0.1:1/mcp", "http://127.0.0.1:2/token", ""),
            ("http://localhost:1/mcp", "http://[::1]:2/token", ""),
            (
                "http://127.0.0.1:1/mcp",
                "https://192.168.0.1/token",
                "not public",
            ),
            (
                "http://127.0.0.1:1/mcp",
                "http://auth.example.com/token",
                "not https",
            ),
        ] {
            let found = problem(server, url);
            assert_eq!(expected.is_empty(), found.is_empty(), "{server} {url}: {found}");
            assert!(found.contains(expected), "{server} {url}: {found}");
        }
    }

    #[test]
    fn a_server_without_tls_gets_no_token() {
        let policy = |server: &str| EndpointPolicy::new(&Url::parse(server).unwrap());
        assert!(policy("http://mcp.example.com/mcp").is_err());
        assert!(policy("http://10.0.0.1/mcp").is_err());
        assert!(policy("http://127.0.0.1:8080/mcp").is_ok());
    }
}
