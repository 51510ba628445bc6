//! Addresses of servers as people may see them. Pure: must not resolve names or connect.

use url::{ParseError, Url};

/// Returns an address without the parts that may be secrets. The rest stays as it is written, which need not be valid.
/// Remove known secrets first: one may be in several parts.
pub fn hide_secrets(address: &str) -> String {
    let is_scheme = |text: &str| text.trim_start().chars().all(char::is_alphanumeric);
    let parts = address.split_once("://");
    let Some((scheme, rest)) = parts.filter(|(scheme, _)| is_scheme(scheme)) else {
        // The parser of URLs also accepts other slashes, or none.
        return match Url::parse(address) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => hide_secrets(url.as_str()),
            Ok(_) | Err(ParseError::RelativeUrlWithoutBase) => address.to_owned(),
            Err(_) => "hidden".to_owned(),
        };
    };
    // The parser of URLs skips more slashes.
    let is_web = scheme.trim().to_ascii_lowercase().starts_with("http");
    let rest = if is_web {
        rest.trim_start_matches(['/', '\\'])
    } else {
        rest
    };
    let authority = &rest[..rest.find(['/', '\\', '#', '?']).unwrap_or(rest.len())];
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    let is_port = port.is_none_or(|port| port.ends_with(']') || port.parse::<u16>().is_ok());
    let at = match authority.rfind('@') {
        // People write passwords with such characters, although they end a password there.
        None if !is_port => rest.rfind('@'),
        at => at,
    };
    let (user, rest) = rest.split_at(at.unwrap_or(0));
    let (rest, query) = rest
        .split_once('?')
        .map_or((rest, ""), |(rest, _)| (rest, "?hidden"));
    match user.split_once(':') {
        Some((user, _)) => format!("{scheme}://{user}:hidden{rest}{query}"),
        None => format!("{scheme}://{user}{rest}{query}"),
    }
}

/// Returns the secrets in an address: its password, and query values that look like a key.
pub fn secrets_in(address: &str) -> Vec<String> {
    password_and_query(address, is_secret)
}

/// Returns what [`hide_secrets`] leaves out of an address: its password, and all values of its query.
pub fn hidden_parts(address: &str) -> Vec<String> {
    password_and_query(address, |_| true)
}

/// Returns the password, and the query values whose names fit. A value without a name is its own name.
fn password_and_query(address: &str, fits: impl Fn(&str) -> bool) -> Vec<String> {
    let Ok(url) = Url::parse(address) else {
        return Vec::new();
    };
    let password = url.password().map(str::to_owned);
    let query = url.query_pairs();
    let keys = query.filter(|(name, _)| fits(name)).map(|(name, value)| {
        let is_value = value.is_empty() && !is_secret(&name);
        if is_value { name } else { value }.into_owned()
    });
    password.into_iter().chain(keys).collect()
}

/// Reports whether a query parameter with this name holds a secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["key", "token", "secret", "sig", "pass", "auth"]
        .iter()
        .any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_shown_as_it_is_written_without_what_may_be_secret() {
        for (address, shown) in [
            ("https://Example.com/é %41", "https://Example.com/é %41"),
            (
                "https://ada:p@ss@h.example:8/mcp?key=a?b#c",
                "https://ada:hidden@h.example:8/mcp?hidden",
            ),
            ("http://${USER}:x@${HOST}", "http://${USER}:hidden@${HOST}"),
            ("http://ada@h/a:b@c", "http://ada@h/a:b@c"),
            ("http://h:8/a@b", "http://h:8/a@b"),
            ("http://[::1]/a@b", "http://[::1]/a@b"),
            // Not these hosts, but somebody's password.
            ("http://ada:p#w@h/x", "http://ada:hidden@h/x"),
            ("http://ada:p/w@h?k=@q", "http://ada:hidden@q"),
            ("http://ada:p?w@h", "http://ada:hidden@h"),
            ("http://ada:#w@h", "http://ada:hidden@h"),
            ("HTTP:///ada:pw@h/x", "HTTP://ada:hidden@h/x"),
            ("file:///a:b@c", "file:///a:b@c"),
            ("http://h?key=http://x", "http://h?hidden"),
            (
                "npx -y x --url=http://ada:x@h?y",
                "npx -y x --url=http://ada:x@h?y",
            ),
            // Other spellings that the parser of URLs accepts.
            ("http:ada:pw@h/?k=q", "http://ada:hidden@h/?hidden"),
            ("HTTPS:/ada:pw@h#x", "https://ada:hidden@h/#x"),
            ("http:\\\\ada:pw@h\\?k=q", "http://ada:hidden@h/?hidden"),
            ("ht\ttp://ada:pw@h", "http://ada:hidden@h/"),
            ("http:ada:pw@h/?k=http://x", "http://ada:hidden@h/?hidden"),
            ("http:ada:pw@h:x", "hidden"),
            ("docker:run x", "docker:run x"),
            ("a+b://x", "a+b://x"),
            ("", ""),
        ] {
            assert_eq!(hide_secrets(address), shown);
        }
    }

    #[test]
    fn name_of_an_empty_key_is_not_a_secret() {
        let address = "http://u:p@h/?api_key=&plain";
        assert_eq!(hidden_parts(address), ["p", "", "plain"]);
        assert_eq!(secrets_in(address), ["p", ""]);
    }
}
