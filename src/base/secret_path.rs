//! Which files look like they hold secrets, judged by name alone (R-SEC).
//!
//! Pure: touches no disk and resolves no links. `approval` and `workspace` decide what happens to such files.

mod git_exclusions;

use std::path::Path;

pub use git_exclusions::{git_exclusions, is_left_out_by_git};

use super::glob::GlobPattern;

/// File names that are secret in any folder.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    ".env", ".envrc", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".htpasswd",
    ".dockercfg", ".dockerconfigjson", ".credentials", ".databrickscfg", ".histfile", ".mylogin.cnf",
    ".terraformrc", ".zhistory", "cookies.sqlite", "fish_history", "kcore", "key4.db", "login data",
    "logins.json", "rclone.conf", ".git-credentials", ".gitcookies", ".renviron", ".vault-token",
    ".vault_pass", ".vault_pass.txt", ".boto", ".claude.json", ".s3cfg", "id_rsa", "id_dsa", "id_ecdsa",
    "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "credentials", "kubeconfig", "shadow", "gshadow",
    "environ",
];

/// Stems that are secret with a data extension: `secrets.yaml`, `credentials.json`.
#[rustfmt::skip]
const STEMS: &[&str] = &[
    "secret", "secrets", "credentials", "service-account", "service_account",
];
const DATA_EXTENSIONS: &[&str] = &["json", "yaml", "yml", "toml", "ini", "env", "txt", "enc"];

/// Extensions of keys, key stores, and other secret files.
#[rustfmt::skip]
const EXTENSIONS: &[&str] = &[
    "env", "pem", "key", "p8", "p12", "pfx", "ppk", "jks", "keystore", "kdb", "kdbx", "agekey", "keychain",
    "keychain-db", "keytab", "tfstate", "tfvars",
];

/// Suffixes of copies: a copy of a secret is a secret too.
const COPIES: &[&str] = &[
    "~", "-", ".bak", ".backup", ".copy", ".old", ".orig", ".save", ".swo", ".swp", ".tmp",
];

/// Extensions of files that are meant to be shared, such as `.env.example`.
const SHARED_ENDINGS: &[&str] = &["example", "sample", "template", "dist"];

/// Folders whose whole content is secret.
#[rustfmt::skip]
const FOLDERS: &[&str] = &[
    ".ssh", ".gnupg", ".aws", ".azure", ".bitcoin", ".chef", ".kaggle", ".kube", ".password-store",
];

/// Secret files that are recognized together with their parent folder: (folder, file).
#[rustfmt::skip]
const IN_FOLDER: &[(&str, &str)] = &[
    ("agentls", "keys.json"), (".docker", "config.json"), ("io.datasette.llm", "keys.json"),
    (".cargo", "credentials.toml"), (".composer", "auth.json"), ("containers", "auth.json"),
    ("huggingface", "token"), ("pypoetry", "auth.toml"), (".git", "config"),
    (".gradle", "gradle.properties"), (".m2", "settings-security.xml"), (".m2", "settings.xml"),
    ("gh", "hosts.yml"), ("gcloud", "application_default_credentials.json"),
    ("gcloud", "access_tokens.db"), ("gcloud", "credentials.db"),
];

/// Folders whose whole content is secret, recognized together with their parent folder: (parent, folder).
#[rustfmt::skip]
const FOLDERS_IN: &[(&str, &str)] = &[
    ("agentls", "mcp-tokens"), (".claude", "projects"), (".codex", "sessions"), (".config", "anthropic"),
    (".config", "argocd"), (".config", "borg"), (".config", "bravesoftware"), (".config", "chromium"),
    (".config", "google-chrome"), (".config", "google-chrome-beta"), (".config", "google-chrome-unstable"),
    (".config", "gopass"), (".config", "hcloud"), (".config", "microsoft-edge"), (".config", "ngrok"),
    (".config", "openai"), (".config", "openstack"), (".config", "opera"), (".config", "rbw"),
    (".config", "restic"), (".config", "stripe"), (".config", "tea"), (".config", "vivaldi"),
    (".mozilla", "firefox"), ("library", "keychains"), ("share", "keyrings"), ("share", "trash"),
];

/// Returns whether a file of this name is likely to hold a secret.
///
/// Secret are `.env` and its variants (but not `.env.example`), private keys, credential files of common tools, and
/// copies of them (`key.pem.bak`). Public keys (`*.pub`) and `known_hosts` are not.
///
/// Only the name decides, and case does not matter. The path must use `/`, and the caller resolves links.
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
    let name = strip_backup_suffix(name);
    let parent = folders.last().copied().unwrap_or_default();
    // `/proc/<pid>/mem` is a process's memory; a `mem` elsewhere is an ordinary file.
    let memory = name == "mem" && folders.first() == Some(&"proc");
    memory
        || is_secret_name(name)
        || folders.iter().any(|folder| FOLDERS.contains(folder))
        || folders
            .windows(2)
            .any(|pair| FOLDERS_IN.contains(&(pair[0], pair[1])))
        || IN_FOLDER.contains(&(parent, name))
}

/// Strips what marks a copy: `key.pem.bak~` and `#key.pem#` become `key.pem`.
fn strip_backup_suffix(name: &str) -> &str {
    // Emacs names an auto-save `#name#` and a lock `.#name`.
    let mut name = name
        .trim_matches('#')
        .strip_prefix(".#")
        .unwrap_or(name.trim_matches('#'));
    loop {
        let shorter = COPIES.iter().find_map(|copy| name.strip_suffix(copy));
        // Backups may be numbered, some by a timestamp: `terraform.tfstate.1712.backup`.
        let numbered = || {
            let (before, number) = name.rsplit_once('.')?;
            (number.len() <= 12 && number.bytes().all(|digit| digit.is_ascii_digit())).then_some(before)
        };
        match shorter.or_else(numbered) {
            Some(shorter) if !shorter.is_empty() => name = shorter,
            Some(_) | None => return name,
        }
    }
}

fn is_secret_name(name: &str) -> bool {
    if let Some((stem, ending)) = name.rsplit_once('.')
        && SHARED_ENDINGS.contains(&ending)
        && (stem == ".env"
            || stem.starts_with(".env.")
            || stem.ends_with(".env")
            || stem.ends_with(".tfvars"))
    {
        return false;
    }
    let is_history = name.starts_with('.') && name.ends_with("_history");
    if NAMES.contains(&name) || FOLDERS.contains(&name) || name.starts_with(".env.") || is_history {
        return true;
    }
    // Frameworks and cloud providers keep keys in JSON files with these names.
    if let Some(stem) = name.strip_suffix(".json") {
        let settings = stem.starts_with("appsettings.") || stem.ends_with(".tfvars");
        let key = stem.ends_with("-key") || stem.ends_with("_key") || stem.contains("firebase-adminsdk");
        let account =
            stem.contains("service") && stem.contains("account") || stem.starts_with("client_secret");
        if settings || key || account || stem.contains("credentials") {
            return true;
        }
    }
    match name.rsplit_once('.') {
        // `.key` is a hidden file without a stem, not a key file.
        Some(("", _)) | None => false,
        Some((stem, extension)) => {
            EXTENSIONS.contains(&extension) || (STEMS.contains(&stem) && DATA_EXTENSIONS.contains(&extension))
        }
    }
}

/// Returns the first piece of `text` that names a secret-like file.
///
/// `text` is a word of a command or a whole script. It is split at every character that file names rarely contain, so
/// that `--file=.env`, `@.env`, `HEAD:.env`, and `open('.env')` are found too.
pub fn named_in(text: &str) -> Option<&str> {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '~' | '+' | '%')))
        .find(|piece| is_secret_like(piece))
}

/// Names that represent all secret-like files when a glob is matched: `cat .e*` may read one.
#[rustfmt::skip]
const SAMPLES: &[&str] = &[
    ".env", ".env.local", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".ssh", ".aws", ".gnupg",
    ".kube", "id_rsa", "id_ed25519", "credentials", "secrets.yaml", "server.pem", "server.key",
    "store.jks", "store.p12", "terraform.tfstate", "prod.tfvars", ".bash_history", ".dockerconfigjson",
    "environ", "shadow",
];

/// Returns whether a shell glob may expand to a secret-like file.
///
/// A glob that leads out of the working directory may expand to anything. A lone `*` in a folder does not count: it
/// matches no hidden file, and counting it would make commands such as `rm *.o` ask about secrets.
pub fn glob_may_name(text: &str) -> bool {
    if named_in(text).is_some() {
        return true;
    }
    let has_glob = text.contains(['*', '?', '[']);
    // Outside the working directory, nothing is known about the names that may match.
    let leads_out = text.starts_with(['/', '~']) || text.split('/').any(|part| part == "..");
    if has_glob && (leads_out || may_be_in_folder(text)) {
        return true;
    }
    text.split('/')
        .filter(|part| part.contains(['*', '?', '[']) && !part.chars().all(|c| c == '*'))
        .any(|part| {
            // A pattern that is not understood may match anything.
            GlobPattern::for_names(part).map_or(true, |glob| {
                // A leading star does not match a hidden file.
                SAMPLES
                    .iter()
                    .filter(|sample| !(sample.starts_with('.') && part.starts_with('*')))
                    .any(|sample| glob.is_match(sample))
            })
        })
}

/// Returns whether two consecutive parts of a glob may match a secret file and its folder: `.git/conf*`.
fn may_be_in_folder(text: &str) -> bool {
    let fits = |part: &str, name: &str| GlobPattern::for_names(part).map_or(true, |glob| glob.is_match(name));
    let parts: Vec<String> = text.split('/').map(str::to_lowercase).collect();
    parts.windows(2).any(|pair| {
        let mut known = IN_FOLDER.iter();
        // A leading star does not match a hidden folder.
        known.any(|(folder, name)| {
            !(folder.starts_with('.') && pair[0].starts_with('*'))
                && fits(&pair[0], folder)
                && fits(&pair[1], name)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_recognized() {
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
            "~/.gitcookies",
            "~/.Renviron",
            "~/.vault_pass",
            "~/.chef/user.txt",
            "~/.config/restic/x",
            "~/.config/argocd/config",
            "~/.claude/projects/p/x.jsonl",
            "~/.codex/sessions/2026/x.jsonl",
            "~/.local/share/Trash/files/notes.txt",
            "certs/server.pem",
            "server.KEY",
            "store.p12",
            "x.pfx",
            "x.jks",
            "x.kdbx",
            "~/.gnupg/secring.gpg",
            "~/.docker/config.json",
            "~/.local/share/agentls/keys.json",
            "/data/agentls/keys.json.bak",
            "~/.local/share/agentls/mcp-tokens/a.json",
            "~/.config/io.datasette.llm/keys.json",
            "~/.kube/config",
            "~/.config/gh/hosts.yml",
            "~/.cargo/credentials.toml",
            "~/.cache/huggingface/token",
            "~/.claude.json",
            "~/.config/BraveSoftware/Brave-Browser/Default/History",
            "~/.kaggle/kaggle.json",
            "secrets.yaml",
            "config/credentials.json",
            "/proc/self/environ",
            "/etc/shadow",
            "/etc/gshadow-",
            "id_ed25519",
            "./.env",
            "terraform.tfstate",
            "terraform.tfstate.backup",
            "terraform.tfstate.1712.backup",
            "prod.auto.tfvars",
            "prod.tfvars.json",
            ".env~",
            ".env.bak",
            ".ENV.OLD",
            "key.pem.bak",
            "key.pem.bak~",
            ".key.pem.swp",
            "#key.pem#",
            ".#key.pem",
            "id_rsa.old",
            "id_ed25519.1",
            "gcp-key.json",
            "my-credentials-2.json",
            "service-account-prod.json",
            "serviceAccount.json",
            "app-firebase-adminsdk-x1.json",
            "client_secret_1.apps.json",
            ".dockerconfigjson",
            "appsettings.Production.json",
            ".git/config",
            "a/.git/config",
            "~/.m2/settings.xml",
            ".bash_history",
            "~/.psql_history",
            "~/.local/share/fish/fish_history",
            "x.jks.orig",
            "krb5.keytab",
            "~/.mozilla/firefox/p/key4.db",
            "~/.config/google-chrome/Default/Cookies",
            "~/Library/Keychains/login.keychain-db",
            "/proc/12/mem",
        ] {
            assert!(is_secret_like(path), "{path}");
        }
    }

    #[test]
    fn ordinary_names_are_not_secret() {
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
            "i18n/keys.json",
            "agentls/config.toml",
            "Cargo.toml",
            "src/key.ts",
            "tokens.css",
            "tokens.json",
            "src/secrets.rs",
            "terraform.tf",
            "prod.tfvars.example",
            "appsettings.json",
            "git/config",
            "src/history.rs",
            "db/migration_history",
            "m2/settings.xml",
            "browsers/chromium/launch.ts",
            "service.json",
            "accounts.json",
            "credentials.ts",
            "notes.bak",
            "CHANGELOG.1",
            "src/mem",
            "monkey.json",
        ] {
            assert!(!is_secret_like(path), "{path}");
        }
    }

    #[test]
    fn secret_names_are_found_inside_words() {
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
    fn globs_that_may_match_a_secret_are_recognized() {
        for (glob, may) in [
            (".e*", true),
            (".*", true),
            ("?env", true),
            (".en[v]", true),
            ("*.pem", true),
            ("id_*", true),
            ("~/.s*/x", true),
            ("conf/.env*", true),
            ("*.tfstate", true),
            (".bash_h*", true),
            (".git/conf*", true),
            ("agentls/k*.json", true),
            (".gi?/config", true),
            (".m2/*.xml", true),
            ("/proc/[0-9]*/env*", true),
            ("/proc/self/[e]nviron", true),
            ("/etc/sha*", true),
            ("~/*", true),
            ("../*/x", true),
            ("*/config", false),
            ("*.json", false),
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
