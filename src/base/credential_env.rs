//! Which environment variables look like credentials, judged by name and value alone (R-SEC, R-BOX).
//!
//! Pure; knows no settings. The lists below are the whole definition; the tests pin the borderline cases.

use super::word_list::WordList;

/// Parts of a name, separated by punctuation, that mean a credential.
const PARTS: WordList = WordList(
    "APIKEY AUTH AUTHORIZATION COOKIE COOKIES JWT KEY KEYS PASS PASSPHRASE PASSWD PAT PIN PRIVATEKEY PSK \
    PWD SAS TOKEN WEBHOOK",
);
/// Endings of such parts, for names written without separators: `_authToken`, `MYAPIKEY`.
const ENDINGS: [&str; 4] = ["TOKEN", "APIKEY", "ACCESSKEY", "PRIVATEKEY"];
/// Text that means a credential wherever it is in a name.
#[rustfmt::skip]
const ANYWHERE: [&str; 6] = [
    "SECRET", "PASSWORD", "CREDENTIAL", "CONNECTION_STRING", "CUSTOM_HEADERS", "SSHPASS",
];
/// Last parts of names whose value says where something is or how it works, if it is an absolute path or a number.
const LOCATORS: [&str; 12] = [
    "COUNT", "DIR", "FILE", "HOME", "LENGTH", "LIMIT", "PATH", "PID", "SIZE", "SOCK", "SOCKET", "TIMEOUT",
];
/// Starts of names that mean a credential: the session keys of password managers.
const NAME_STARTS: [&str; 2] = ["BW_SESSION", "OP_SESSION"];
/// Names that match the lists above and hold no credential.
const HARMLESS: [&str; 3] = ["PWD", "OLDPWD", "KEY"];
/// Starts of values that well-known services issue.
#[rustfmt::skip]
const VALUE_STARTS: [&str; 32] = [
    "AGE-SECRET-KEY-", "AIza", "AKIA", "ASIA", "Basic ", "Bearer ", "dckr_pat_", "dop_v1_", "eyJhbGciOi",
    "gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_", "glpat-", "gsk_", "hf_", "hvs.", "lin_api_",
    "npm_", "pypi-", "rk_live_", "SG.", "shpat_", "sk-", "sk_live_", "xai-", "xapp-", "xoxb-", "xoxp-",
    "ya29.",
];
/// The shortest value, in bytes, that [`VALUE_STARTS`] applies to.
const SHORTEST_VALUE: usize = 16;
/// Text in a value, in lower case, that means a credential.
#[rustfmt::skip]
const VALUE_PIECES: [&str; 6] = [
    "private key-----", "password=", "accountkey=", "sharedaccesskey=", "authorization: ", "_authtoken=",
];

/// Returns whether a variable looks like a credential: `GITHUB_TOKEN`, `AWS_SECRET_ACCESS_KEY`, or a URL with a
/// password.
///
/// Switches (`DISABLE_AUTH=1`) and locations (`SSH_AUTH_SOCK=/run/…`) do not count.
pub fn is_credential(name: &str, value: &str) -> bool {
    !value.is_empty()
        && (value_is_credential(value) || (name_is_credential(name) && !is_setting(name, value)))
}

fn name_is_credential(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // `GIT_CONFIG_KEY_<n>` names a setting of git; its value is in `GIT_CONFIG_VALUE_<n>`, which is judged by itself.
    if HARMLESS.contains(&name.as_str()) || name.starts_with("GIT_CONFIG_KEY_") {
        return false;
    }
    ANYWHERE.iter().any(|piece| name.contains(piece))
        || NAME_STARTS.iter().any(|start| name.starts_with(start))
        || name
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|part| PARTS.contains(part) || ENDINGS.iter().any(|ending| part.ends_with(ending)))
}

/// Returns whether the variable's value is a location or a switch instead of the credential itself.
fn is_setting(name: &str, value: &str) -> bool {
    let last = name.rsplit('_').next().unwrap_or_default().to_ascii_uppercase();
    let number = value.bytes().all(|byte| byte.is_ascii_digit());
    // A path counts only if the name asks for one: a key in base64 may begin with a slash too.
    (LOCATORS.contains(&last.as_str()) && (number || value.starts_with(['/', '~'])))
        || matches!(
            value.to_ascii_lowercase().as_str(),
            "0" | "1" | "true" | "false" | "yes" | "no" | "on" | "off"
        )
}

fn value_is_credential(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    VALUE_PIECES.iter().any(|piece| lower.contains(piece))
        || has_password(value)
        || (value.len() >= SHORTEST_VALUE && VALUE_STARTS.iter().any(|start| value.starts_with(start)))
}

/// Returns whether a URL in `text` contains a password: `scheme://user:password@host`.
fn has_password(text: &str) -> bool {
    text.match_indices("://").any(|(at, mark)| {
        let rest = &text[at + mark.len()..];
        let authority = rest
            .split(|c: char| matches!(c, '/' | '?' | '#') || c.is_whitespace())
            .next()
            .unwrap_or_default();
        authority
            .rsplit_once('@')
            .and_then(|(user, _)| user.split_once(':'))
            .is_some_and(|(_, password)| !password.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_credentials_by_name_or_value() {
        for (name, value) in [
            ("GITHUB_TOKEN", "x"),
            ("NPM_TOKEN", "x"),
            ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("AWS_SESSION_TOKEN", "x"),
            ("BW_SESSION", "q1w2e3"),
            ("OP_SESSION_my", "q1w2e3"),
            ("DB_PASSWORD", "hunter2"),
            ("PGPASSWORD", "hunter2"),
            ("MYSQL_PWD", "x"),
            ("CLIENT_SECRET", "x"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "/home/u/key.json"),
            ("npm_config_//registry.npmjs.org/:_authToken", "x"),
            ("DOCKER_AUTH_CONFIG", "{}"),
            ("AZURE_DEVOPS_EXT_PAT", "x"),
            ("AZURE_STORAGE_CONNECTION_STRING", "x"),
            ("API-KEY", "x"),
            ("openai_api_key", "x"),
            ("MYAPIKEY", "x"),
            ("SECRET_KEY_BASE", "x"),
            ("SLACK_WEBHOOK", "x"),
            // A path counts only if the name asks for one: base64 may begin with a slash.
            ("SIGNING_KEY", "/abc=="),
            ("DATABASE_URL", "postgres://u:pw@host/db"),
            ("HTTPS_PROXY", "http://u:p%40@proxy:3128"),
            ("STORAGE", "DefaultEndpointsProtocol=https;AccountKey=abc"),
            ("ANYTHING", "ghp_0123456789abcdef0123"),
            ("ANYTHING", "-----BEGIN OPENSSH PRIVATE KEY-----\nabc"),
            ("GIT_CONFIG_VALUE_0", "AUTHORIZATION: basic eDp5"),
        ] {
            assert!(is_credential(name, value), "{name}={value}");
        }
    }

    #[test]
    fn variables_that_only_look_like_credentials_are_not() {
        for (name, value) in [
            ("PATH", "/usr/bin:/bin"),
            ("PWD", "/home/u"),
            ("HOME", "/home/u"),
            ("SSH_AUTH_SOCK", "/run/user/1000/ssh"),
            ("GPG_AGENT_INFO", "/run/gpg:0:1"),
            ("XDG_SESSION_ID", "2"),
            ("XAUTHORITY", "/home/u/.Xauthority"),
            ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/1000/bus"),
            ("TERM_SESSION_ID", "w0t0p0:3C6A"),
            ("KEYBOARD_LAYOUT", "us"),
            ("KEYTIMEOUT", "1"),
            ("LESSKEYIN", "/home/u/.lesskey"),
            ("TOKENIZERS_PARALLELISM", "false"),
            ("MAX_TOKENS", "100"),
            ("DISABLE_AUTH", "1"),
            ("SSH_ASKPASS", "/usr/bin/ssh-askpass"),
            ("GIT_CONFIG_KEY_0", "core.pager"),
            ("GIT_CONFIG_VALUE_0", "cat"),
            ("AWS_SHARED_CREDENTIALS_FILE", "/home/u/.aws/credentials"),
            ("PASSWORD_STORE_DIR", "/home/u/.password-store"),
            ("SSH_CONNECTION", "10.0.0.1 22"),
            ("HTTP_PROXY", "http://proxy:3128"),
            ("REPOSITORY", "git@github.com:a/b.git"),
            ("ORIGIN", "https://user@host/x"),
            ("RUSTFLAGS", "-Dwarnings"),
            ("COMPASS_HOME", "/opt/compass"),
            ("EMPTY_TOKEN", ""),
        ] {
            assert!(!is_credential(name, value), "{name}={value}");
        }
    }
}
