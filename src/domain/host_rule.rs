//! Which hosts a sandboxed command may reach: entries of `[sandbox] allow_hosts`, and the targets that they cover.
//!
//! Pure: must not resolve names. Both sides are parsed alike, so that no spelling of a host passes for another one:
//! the case, a final dot, IDN, and the forms of an IPv4 address make no difference.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use url::Host;

/// The ports of an entry without one.
const WEB_PORTS: [u16; 2] = [80, 443];

/// A host and port that a command wants to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostTarget {
    pub host: Host,
    pub port: u16,
}

/// One entry of `allow_hosts`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostRule {
    host: HostPattern,
    /// The ports 80 and 443 if `None`.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum HostPattern {
    Exact(Host),
    /// Every name that ends with a dot and this domain.
    Below(String),
}

impl HostTarget {
    /// Parses `host:port`, as in a `CONNECT` request; without a port it has the `default_port`.
    ///
    /// Returns `None` if it is anything else, such as a target with a user name.
    pub fn parse(authority: &str, default_port: Option<u16>) -> Option<Self> {
        let (host, port) = split_port(authority)?;
        let port = match port {
            Some(port) => parse_port(port)?,
            None => default_port?,
        };
        Some(Self {
            host: parse_host(host)?,
            port,
        })
    }

    /// Returns the address, if the host is one.
    pub fn address(&self) -> Option<IpAddr> {
        host_address(&self.host)
    }

    /// Returns the entry that covers exactly this host, which is also how the user would write it.
    pub fn to_rule(&self) -> HostRule {
        HostRule {
            host: HostPattern::Exact(self.host.clone()),
            port: (!WEB_PORTS.contains(&self.port)).then_some(self.port),
        }
    }
}

impl fmt::Display for HostTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl HostRule {
    /// Parses an entry: `host`, `host:port`, `*.suffix`, or `*.suffix:port`.
    ///
    /// # Errors
    /// What is wrong with it, as the end of a sentence that begins with the entry.
    pub fn parse(entry: &str) -> Result<Self, &'static str> {
        const FORM: &str = "is not a host; write it like `example.com`, `*.example.com`, or `localhost:3000`";
        if entry == "*" {
            return Err("means every host; `network = true` allows that");
        }
        let (written, port) = split_port(entry).ok_or(FORM)?;
        let port = match port {
            Some(port) => Some(parse_port(port).ok_or("has no valid port; ports are 1 to 65535")?),
            None => None,
        };
        let host = match written.strip_prefix("*.") {
            Some(suffix) => match parse_host(suffix).ok_or(FORM)? {
                Host::Domain(suffix) => HostPattern::Below(suffix),
                Host::Ipv4(_) | Host::Ipv6(_) => return Err("has a `*` before an address"),
            },
            None => HostPattern::Exact(parse_host(written).ok_or(FORM)?),
        };
        Ok(Self { host, port })
    }

    /// Returns whether the entry covers the target.
    pub fn covers(&self, target: &HostTarget) -> bool {
        let covers_host = match (&self.host, &target.host) {
            (HostPattern::Exact(host), wanted) => host == wanted,
            (HostPattern::Below(suffix), Host::Domain(name)) => {
                let rest = name.strip_suffix(suffix.as_str());
                rest.is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            (HostPattern::Below(_), Host::Ipv4(_) | Host::Ipv6(_)) => false,
        };
        covers_host && self.covers_port(target.port)
    }

    /// Returns whether the entry spells the target out. A pattern does not: whoever owns the domain chooses the names
    /// below it, and where they lead.
    pub fn names(&self, target: &HostTarget) -> bool {
        matches!(self.host, HostPattern::Exact(_)) && self.covers(target)
    }

    /// Returns whether the entry names exactly this host, with whatever port.
    pub fn has_host(&self, host: &str) -> bool {
        matches!(&self.host, HostPattern::Exact(own) if parse_host(host).as_ref() == Some(own))
    }

    fn covers_port(&self, port: u16) -> bool {
        match self.port {
            Some(own) => own == port,
            None => WEB_PORTS.contains(&port),
        }
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            HostPattern::Exact(host) => write!(f, "{host}")?,
            HostPattern::Below(suffix) => write!(f, "*.{suffix}")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

/// Splits `host:port`. An IPv6 address must be in brackets, or its end would pass for a port.
fn split_port(written: &str) -> Option<(&str, Option<&str>)> {
    let after_address = written.rfind(']').map_or(0, |end| end + 1);
    match written[after_address..].split_once(':') {
        Some((rest, port)) => Some((&written[..after_address + rest.len()], Some(port))),
        None => Some((written, None)),
    }
    .filter(|(_, port)| port.is_none_or(|port| !port.contains(':')))
}

fn parse_port(written: &str) -> Option<u16> {
    // `parse` also accepts a sign.
    let is_number = !written.is_empty() && written.bytes().all(|byte| byte.is_ascii_digit());
    written.parse().ok().filter(|port| is_number && *port != 0)
}

/// Parses a host by the rules of URLs, which turn every form of an IPv4 address into that address.
fn parse_host(written: &str) -> Option<Host> {
    // A URL may escape characters; a host that needs that is none.
    if written.contains(['%', '*']) {
        return None;
    }
    let host = Host::parse(written.strip_suffix('.').unwrap_or(written)).ok()?;
    Some(match host {
        Host::Domain(name) => {
            let is_name = name.len() <= 253 && name.split('.').all(|label| !label.is_empty());
            return is_name.then_some(Host::Domain(name));
        }
        Host::Ipv6(address) => from_ipv6(address),
        host @ Host::Ipv4(_) => host,
    })
}

/// Returns the IPv4 address in an IPv6 one that only maps it.
fn from_ipv6(address: Ipv6Addr) -> Host {
    match address.to_canonical() {
        IpAddr::V4(address) => Host::Ipv4(address),
        IpAddr::V6(address) => Host::Ipv6(address),
    }
}

fn host_address(host: &Host) -> Option<IpAddr> {
    match host {
        Host::Domain(_) => None,
        Host::Ipv4(address) => Some((*address).into()),
        Host::Ipv6(address) => Some((*address).into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn covers(rule: &str, target: &str) -> bool {
        let rule = HostRule::parse(rule).unwrap();
        HostTarget::parse(target, None).is_some_and(|target| rule.covers(&target))
    }

    #[test]
    fn entries_cover_their_hosts_and_nothing_else() {
        for (rule, target, expected) in [
            ("example.com", "example.com:443", true),
            ("example.com", "example.com:80", true),
            ("example.com", "example.com:8080", false),
            ("example.com", "example.com:22", false),
            ("example.com:8080", "example.com:8080", true),
            ("example.com:8080", "example.com:443", false),
            ("example.com", "EXAMPLE.Com:443", true),
            ("Example.COM.", "example.com:443", true),
            ("example.com", "example.com.:443", true),
            ("example.com", "example.com..:443", false),
            ("example.com", "www.example.com:443", false),
            ("example.com", "example.com.evil.com:443", false),
            ("example.com", "evil-example.com:443", false),
            ("example.com", "example.co:443", false),
            ("*.allowed.com", "a.allowed.com:443", true),
            ("*.allowed.com", "a.b.allowed.com:443", true),
            // Who owns a domain chooses the names below it.
            ("*.allowed.com", "evil.com.allowed.com:443", true),
            ("*.allowed.com", "allowed.com:443", false),
            ("*.allowed.com", ".allowed.com:443", false),
            ("*.allowed.com", "evilallowed.com:443", false),
            ("*.allowed.com", "allowed.com.evil.com:443", false),
            ("*.allowed.com:8443", "a.allowed.com:8443", true),
            ("*.allowed.com:8443", "a.allowed.com:443", false),
            // A user name is no host, in whatever way it looks like one.
            ("example.com", "example.com@evil.com:443", false),
            ("example.com", "evil.com@example.com:443", false),
            ("example.com", "example.com:443@evil.com:443", false),
            ("example.com", "example.com:443:443", false),
            ("example.com", "example.com", false),
            ("example.com", "example.com:", false),
            ("example.com", "example.com:+443", false),
            ("example.com", "example.com:65979", false),
            ("example.com", "example.com:0", false),
            ("example.com", "example.com/evil:443", false),
            ("example.com", "example.com#evil:443", false),
            ("example.com", "example.com\\evil:443", false),
            ("example.com", "example.com%00.evil.com:443", false),
            ("example.com", "ex%61mple.com:443", false),
            ("example.com", " example.com:443", false),
            ("example.com", "example.com\r\n:443", false),
            ("example.com", ":443", false),
            ("bücher.example", "xn--bcher-kva.example:443", true),
            ("bücher.example", "BÜCHER.example:443", true),
            ("xn--bcher-kva.example", "bücher.example:443", true),
            // Looks alike, with a Cyrillic letter.
            ("example.com", "ex\u{430}mple.com:443", false),
            // Full-width letters and dots mean the plain ones.
            ("example.com", "ｅxample。com:443", true),
            ("127.0.0.1", "127.1:443", true),
            ("127.0.0.1", "2130706433:443", true),
            ("127.0.0.1", "0x7f.0.0.1:443", true),
            ("127.0.0.1", "0177.0.0.1:443", true),
            ("127.0.0.1", "[::ffff:127.0.0.1]:443", true),
            ("[::ffff:127.0.0.1]", "127.0.0.1:443", true),
            ("127.0.0.1", "127.0.0.2:443", false),
            ("127.0.0.1", "127.0.0.1.evil.com:443", false),
            ("1.2.3.4", "1.2.3.4.:443", true),
            ("[::1]", "[0:0:0:0:0:0:0:1]:443", true),
            ("[::1]:8080", "[::1]:8080", true),
            ("[::1]", "::1:443", false),
            ("[::1]", "[::1%eth0]:443", false),
            ("[::1]", "[::1].evil.com:443", false),
            ("localhost", "127.0.0.1:80", false),
            ("a_b.example", "a_b.example:443", true),
        ] {
            assert_eq!(covers(rule, target), expected, "{rule} {target:?}");
        }
    }

    #[test]
    fn entries_that_are_not_understood_are_refused() {
        for entry in [
            "",
            " ",
            "*",
            "*.",
            "**",
            "*.*",
            "*example.com",
            "a*.example.com",
            "a.*.com",
            "*.*.com",
            "*.1.2.3.4",
            "*.[::1]",
            "https://example.com",
            "example.com/path",
            "user@example.com",
            "example.com:",
            "example.com:0",
            "example.com:https",
            "example.com:99999",
            "example.com:+1",
            "example.com:1:2",
            "::1",
            "[::1",
            "a..b",
            ".example.com",
            "example.com?x",
            "exa mple.com",
            "1.2.3.4.5",
            "256.1.1.1",
            "%65xample.com",
            "[::1]x",
        ] {
            assert!(HostRule::parse(entry).is_err(), "{entry:?}");
        }
    }

    #[test]
    fn only_an_entry_that_spells_a_host_out_names_it() {
        let names = |rule: &str, target: &str| {
            HostRule::parse(rule)
                .unwrap()
                .names(&HostTarget::parse(target, None).unwrap())
        };
        assert!(names("localhost:3000", "localhost:3000"));
        assert!(names("10.0.0.1", "10.0.0.1:80"));
        assert!(!names("localhost:3000", "localhost:3001"));
        assert!(!names("*.example.com", "a.example.com:80"));
    }

    #[test]
    fn the_rule_of_a_target_is_written_as_a_user_would() {
        for (target, rule) in [
            ("Example.com:443", "example.com"),
            ("example.com:80", "example.com"),
            ("example.com:8443", "example.com:8443"),
            ("[::1]:443", "[::1]"),
            ("127.1:3000", "127.0.0.1:3000"),
        ] {
            assert_eq!(
                HostTarget::parse(target, None).unwrap().to_rule().to_string(),
                rule
            );
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(rule in ".{0,40}", target in ".{0,40}") {
            if let (Ok(rule), Some(target)) = (HostRule::parse(&rule), HostTarget::parse(&target, Some(80))) {
                let _ = (rule.covers(&target), rule.names(&target));
            }
        }

        #[test]
        fn the_rule_of_a_target_names_it_and_survives_being_written(
            host in r"[a-zA-Z0-9_.-]{1,20}|[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}|\[[0-9a-f:]{2,20}\]|[a-zäöü]{1,8}\.de",
            port in 1_u16..,
        ) {
            if let Some(target) = HostTarget::parse(&format!("{host}:{port}"), None) {
                let rule = target.to_rule();
                prop_assert!(rule.names(&target));
                prop_assert_eq!(HostRule::parse(&rule.to_string()), Ok(rule));
                prop_assert_eq!(HostTarget::parse(&target.to_string(), None), Some(target));
            }
        }

        #[test]
        fn a_pattern_covers_only_names_below_its_domain(name in r"[a-z.]{0,8}(allowed\.com)?[a-z.]{0,8}") {
            let rule = HostRule::parse("*.allowed.com").unwrap();
            if let Some(target) = HostTarget::parse(&name, Some(443)) {
                let plain = name.strip_suffix('.').unwrap_or(&name);
                prop_assert_eq!(rule.covers(&target), plain.ends_with(".allowed.com"), "{}", name);
            }
        }
    }
}
