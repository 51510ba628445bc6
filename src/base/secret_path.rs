//! Which files look like they hold secrets, by name alone (R-SEC). Pure; no file is looked at.

use std::path::Path;

/// File names that are secrets wherever they lie.
const NAMES: &[&str] = &[
    ".env",
    ".envrc",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".htpasswd",
    ".dockercfg",
    ".git-credentials",
    ".vault-token",
    ".boto",
    ".s3cfg",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
    "credentials",
    "kubeconfig",
    "shadow",
    "gshadow",
    "environ",
];

/// Stems that are secrets with a data extension: `secrets.yaml`, `credentials.json`.
const STEMS: &[&str] = &[
    "secret",
    "secrets",
    "credentials",
    "service-account",
    "service_account",
];
const DATA_EXTENSIONS: &[&str] = &["json", "yaml", "yml", "toml", "ini", "env", "txt", "enc"];

/// Extensions of keys and key stores.
const EXTENSIONS: &[&str] = &[
    "env", "pem", "key", "p8", "p12", "pfx", "ppk", "jks", "keystore", "kdbx", "agekey",
];

/// Endings of `.env.…` that are meant to be shared.
const SHARED_ENDINGS: &[&str] = &["example", "sample", "template", "dist"];

/// Folders whose content is secret.
const FOLDERS: &[&str] = &[".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store"];

/// Secret files that are known by the folder they lie in.
const IN_FOLDER: &[(&str, &str)] = &[
    (".docker", "config.json"),
    (".cargo", "credentials.toml"),
    ("gh", "hosts.yml"),
    ("gcloud", "application_default_credentials.json"),
    ("gcloud", "access_tokens.db"),
    ("gcloud", "credentials.db"),
];

/// Whether a file of this name is likely to hold a secret: `.env` and its kin (but not
/// `.env.example`), private keys, credential files of common tools.
///
/// A name alone decides, case does not matter, and both `/` and links are the caller's business. Public
/// keys (`*.pub`) and `known_hosts` are not secret.
pub fn is_secret_like(path: impl AsRef<Path>) -> bool {
    let text = path.as_ref().to_string_lossy().to_lowercase();
    let mut components = text.split('/').filter(|part| !matches!(*part, "" | "."));
    let Some(name) = components.next_back() else {
        return false;
    };
    let folders: Vec<&str> = components.collect();
    if name.ends_with(".pub") || name.starts_with("known_hosts") {
        return false;
    }
    let parent = folders.last().copied().unwrap_or_default();
    is_secret_name(name)
        || folders.iter().any(|folder| FOLDERS.contains(folder))
        || IN_FOLDER.contains(&(parent, name))
}

fn is_secret_name(name: &str) -> bool {
    if let Some((stem, ending)) = name.rsplit_once('.')
        && SHARED_ENDINGS.contains(&ending)
        && (stem == ".env" || stem.starts_with(".env.") || stem.ends_with(".env"))
    {
        return false;
    }
    if NAMES.contains(&name) || FOLDERS.contains(&name) || name.starts_with(".env.") {
        return true;
    }
    match name.rsplit_once('.') {
        Some(("", _)) | None => false,
        Some((stem, extension)) => {
            EXTENSIONS.contains(&extension) || (STEMS.contains(&stem) && DATA_EXTENSIONS.contains(&extension))
        }
    }
}

/// The first piece of `text` that names a secret-like file.
///
/// `text` is a word of a command or a whole script; it is cut wherever a character cannot belong to a
/// file name, so that `--file=.env`, `@.env`, `HEAD:.env` and `open('.env')` are seen too.
pub fn named_in(text: &str) -> Option<&str> {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '~' | '+' | '%')))
        .find(|piece| is_secret_like(piece))
}

/// Names that stand for all secret-like files when a glob is tried: `cat .e*` may read one.
const SAMPLES: &[&str] = &[
    ".env",
    ".env.local",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
    "id_rsa",
    "id_ed25519",
    "credentials",
    "secrets.yaml",
    "server.pem",
    "server.key",
];

/// Whether a shell glob may stand for a secret-like file. A lone `*` in a folder is not counted: it
/// matches no hidden file, and counting it would make every `rm *.o`-like command a secret.
pub fn glob_may_name(text: &str) -> bool {
    if named_in(text).is_some() {
        return true;
    }
    text.split('/')
        .filter(|part| part.contains(['*', '?', '[']) && !part.chars().all(|c| c == '*'))
        .any(|part| {
            globset::Glob::new(part).is_ok_and(|glob| {
                let matcher = glob.compile_matcher();
                // A leading star does not match a hidden file.
                SAMPLES
                    .iter()
                    .filter(|sample| !(sample.starts_with('.') && part.starts_with('*')))
                    .any(|sample| matcher.is_match(sample))
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_names() {
        for path in [
            ".env",
            "a/.env",
            ".ENV",
            ".env.local",
            ".env.production",
            "prod.env",
            "/home/u/.ssh/id_rsa",
            "/home/u/.ssh/config",
            "/home/u/.ssh",
            "~/.aws/credentials",
            ".netrc",
            ".npmrc",
            ".pypirc",
            ".git-credentials",
            "certs/server.pem",
            "server.KEY",
            "store.p12",
            "x.pfx",
            "x.jks",
            "x.kdbx",
            "~/.gnupg/secring.gpg",
            "~/.docker/config.json",
            "~/.kube/config",
            "~/.config/gh/hosts.yml",
            "~/.cargo/credentials.toml",
            "secrets.yaml",
            "config/credentials.json",
            "/proc/self/environ",
            "/etc/shadow",
            "id_ed25519",
            "./.env",
        ] {
            assert!(is_secret_like(path), "{path}");
        }
    }

    #[test]
    fn other_names() {
        for path in [
            "",
            "/",
            ".env.example",
            ".env.sample",
            ".env.local.template",
            "prod.env.example",
            "env",
            "src/env.rs",
            "environment.md",
            "id_rsa.pub",
            "~/.ssh/id_ed25519.pub",
            "~/.ssh/known_hosts",
            "key",
            "src/key.rs",
            ".key",
            "keys.md",
            "secrets.rs",
            "docs/credentials.md",
            "config.json",
            "docker/config.json",
            "Cargo.toml",
        ] {
            assert!(!is_secret_like(path), "{path}");
        }
    }

    #[test]
    fn names_inside_words() {
        for (word, found) in [
            ("--file=.env", true),
            ("@.env", true),
            ("HEAD:config/.env", true),
            ("open('.env').read()", true),
            ("-i~/.ssh/id_rsa", true),
            ("--env=prod", false),
            ("src/main.rs", false),
        ] {
            assert_eq!(named_in(word).is_some(), found, "{word}");
        }
    }

    #[test]
    fn globs() {
        for (glob, may) in [
            (".e*", true),
            (".*", true),
            ("?env", true),
            (".en[v]", true),
            ("*.pem", true),
            ("id_*", true),
            ("~/.s*/x", true),
            ("conf/.env*", true),
            ("*", false),
            ("src/*", false),
            ("*.rs", false),
            ("src/**/*.rs", false),
            ("test_*", false),
        ] {
            assert_eq!(glob_may_name(glob), may, "{glob}");
        }
    }
}
