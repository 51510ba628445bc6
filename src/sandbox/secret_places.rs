//! Where keys, tokens, and private data are, which commands must not read: the tables, and what variables name.
//!
//! Must not know the plan around them: [`super::scope`] decides in which order the rules apply.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::caches::FOLDER_VARIABLES;
use super::plan::PathRule;
use crate::base::word_list::NameList;

/// Keys and private data, relative to the home folder. Folders with sockets of services are hidden as a whole, because a
/// socket that appears later cannot be covered.
const SECRETS: &[NameList] = &[
    NameList(
        ".1password, .Xauthority, .android/adbkey, .aider.conf.yml, .authinfo, .authinfo.gpg, \
        .config/Bitwarden CLI, .config/cloudflared, .config/configstore, .config/goose/secrets.yaml, \
        .config/heroku, .config/scw, .ICEauthority, .local/share/atuin, .sentryclirc, .snowsql, .tsh, \
        .vercel/auth.json, .viminfo, .config/io.datasette.llm/keys.json, .config/keepassxc, .config/solana, \
        .config/syncthing, .cloudflared, .cursor/auth.json, .davfs2/secrets, .electrum, .ethereum/keystore, \
        .fetchmailrc, .huggingface, .ivy2/.credentials, .lesshst, .librewolf, .local/share/com.vercel.cli, \
        .mbsyncrc, .minikube, .msmtprc, .pulumi/credentials.json, .railway, .rediscli_history, \
        .sbt/.credentials, .smbcredentials, .snowflake, .sqlite_history, .stripe, .subversion/auth, \
        .supabase, .zen, .docker/run, .docker/desktop, .colima, .lima, .orbstack, .rd, \
        .local/share/containers/podman, .ssh, .gnupg, .pki, .aws, .azure, .kube, .oci, .fly, \
        .password-store, .config/age, .config/doctl, .config/gcloud, .config/gh, .config/glab-cli, \
        .config/github-copilot, .config/hub, .config/op, .config/1Password, .config/rclone, .config/sops, \
        .config/hcloud, .config/stripe, .config/ngrok, .config/helm, .config/netlify, .config/.wrangler, \
        .config/Bitwarden, .config/chromium, .config/google-chrome, .config/google-chrome-beta, \
        .config/google-chrome-unstable, .config/BraveSoftware, .config/microsoft-edge, \
        .config/microsoft-edge-beta, .config/microsoft-edge-dev, .config/opera, .config/vivaldi, \
        .config/Slack, .config/Signal, .config/Code/User/globalStorage, .config/Cursor/User/globalStorage, \
        .config/VSCodium/User/globalStorage",
    ),
    // The data of programs in Flatpak and Snap packages, which have their own `.config` and `.mozilla`.
    NameList(".var/app, snap/chromium/common/chromium, snap/firefox/common/.mozilla"),
    NameList(
        ".mozilla, .thunderbird, .local/share/keyrings, .local/share/kwalletd, .local/share/opencode/auth.json, .codex/auth.json, \
        .claude/.credentials.json, .gemini, .terraform.d/credentials.tfrc.json, .cache/huggingface/token, \
        .cache/huggingface/stored_tokens, .kaggle, .dbt, .netlify, .wrangler, .bitcoin, .vault-token, \
        .databrickscfg, .boto, .s3cfg, .pgpass, .my.cnf, .mylogin.cnf, .env, .envrc, .bash_history, \
        .zsh_history, .zhistory, .histfile, .local/share/fish/fish_history, .python_history, .psql_history, \
        .mysql_history, .node_repl_history, .codeium, .config/JetBrains, .config/aichat, .config/linode-cli, \
        .config/wireguard, .continue, .doppler",
    ),
    // Hex takes a file that it cannot read for one without settings, but not an empty one.
    NameList(".hex/hex.config"),
    NameList(
        ".local/share/amp/secrets.json, .local/share/jupyter/runtime, \
        .local/share/uv/credentials, .local/state/bash_history, .ngrok2, .ollama/id_ed25519, .qwen, \
        .saml2aws, .wakatime.cfg, .chef, .circleci, .config/anthropic, .config/argocd, .config/borg, \
        .config/gopass, .config/openai, .config/openstack, .config/rbw, .config/restic, .config/tea, \
        .local/share/gopass, .local/share/rbw, .vault_pass, .vault_pass.txt",
    ),
    // What editors keep of files that were open, and files that were deleted.
    NameList(
        ".config/Code/Backups, .config/Code/User/History, .config/Code/User/workspaceStorage, \
        .config/Cursor/User/History, .config/Cursor/User/workspaceStorage, .config/VSCodium/User/History, \
        .config/VSCodium/User/workspaceStorage, .cursor-server/data, .local/share/Trash, \
        .vscode-server/data, .vscode-server-insiders/data",
    ),
    // Registers, search terms, unsaved text, and undo files of editors: Neovim (`shada-file-name`, `'directory'`,
    // `'undodir'`, `'backupdir'`), Vim (`viminfo-file-name`, and folders that its help and FAQ suggest), Emacs (Auto Save
    // Files, Backup Names, savehist, Eshell), micro (options `backup`, `saveundo`), nano (`historylog`), JOE
    // (`~/.joe_state`), Sublime Text (Hot Exit), Zed (`db`), and JetBrains (Directories used by the IDE).
    NameList(
        ".cache/JetBrains, .cache/vim, .config/Code - Insiders/Backups, .config/Code - Insiders/User/History, \
        .config/Code - Insiders/User/globalStorage, .config/Code - Insiders/User/workspaceStorage, \
        .config/Cursor/Backups, .config/VSCodium/Backups, .config/Windsurf/Backups, \
        .config/Windsurf/User/History, .config/Windsurf/User/globalStorage, \
        .config/Windsurf/User/workspaceStorage, .config/emacs/auto-save-list, .config/emacs/backups, \
        .config/emacs/eshell, .config/emacs/history, .config/micro/backups, .config/micro/buffers, \
        .config/sublime-text/Local, .config/sublime-text-3/Local, .emacs.d/auto-save-list, \
        .emacs.d/auto-saves, .emacs.d/backups, .emacs.d/eshell, .emacs.d/history, .joe_state, \
        .local/share/nano, .local/share/nvim/backup, .local/share/nvim/shada, .local/share/nvim/swap, \
        .local/share/nvim/undo, .local/share/zed/db, .local/state/nvim/backup, .local/state/nvim/shada, \
        .local/state/nvim/swap, .local/state/nvim/undo, .local/state/vim, .vim/backup, .vim/backups, \
        .vim/swap, .vim/swapfiles, .vim/tmp, .vim/undo, .vim/undodir, .vim/viminfo, _viminfo",
    ),
    // What was copied: CopyQ, cliphist (README), GPaste, Klipper, greenclip (README), and panes that tmux-resurrect saves.
    NameList(
        ".cache/cliphist, .cache/greenclip.history, .config/copyq, .local/share/copyq, .local/share/gpaste, \
        .local/share/klipper, .local/share/tmux/resurrect, .tmux/resurrect",
    ),
    // Transcripts of other agents.
    NameList(
        ".claude/history.jsonl, .claude/projects, .codex/history.jsonl, .codex/sessions, \
        .local/share/opencode/storage",
    ),
    // What was typed into shells and interpreters.
    // Names that end with `history` are found in `list_histories`. Here is what is elsewhere, as the programs document it:
    // bash and zsh (`HISTFILE` in usual places), fish before 2.3, elvish, xonsh (`XONSH_DATA_DIR`), PSReadLine
    // (`HistorySavePath`), less (`LESSHISTFILE`), pgcli, mycli, litecli, usql, cqlsh, Beeline, Deno, Leiningen, Ammonite,
    // Groovy, and Pry.
    NameList(
        ".ammonite, .beeline, .cache/deno/deno_history.txt, .cache/zsh/history, .cassandra, \
        .config/bash/history, .config/fish/fish_history, .config/litecli/history, .config/mycli, \
        .config/pgcli, .config/zsh/.zsh_history, .groovy/groovysh.history, .hivehistory, .lein/repl-history, \
        .local/share/elvish, .local/share/mcfly, .local/share/powershell/PSReadLine, \
        .local/share/pry/pry_history, .local/share/xonsh, .local/share/zsh/history, \
        .local/state/bash/history, .local/state/elvish, .local/state/zsh/history, .myclirc, .bash_sessions, \
        .zsh_sessions, .cache/erlang-history, .dbshell, .gdb_history, .ghc/ghci_history, .history, \
        .ipython/profile_default/history.sqlite, .irb_history, .julia/logs/repl_history.jl, \
        .local/share/irb_history, .local/share/nushell/history.txt, .config/nushell/history.txt, \
        .local/state/python_history, .mongodb/mongosh, .octave_hist, .php_history, .pry_history, .Rhistory, \
        .scala_history, .sh_history, .tcsh_history",
    ),
    // Mail and chats.
    NameList(
        ".claws-mail, .config/discord, .config/Element, .config/evolution, .config/hexchat, \
        .config/teams-for-linux, .config/weechat, .irssi, .local/share/evolution, \
        .local/share/TelegramDesktop, .mail, .mutt",
    ),
    // NeoMutt and Mutt (Configuration Files, Header Caching): passwords of accounts, and messages.
    NameList(".cache/mutt, .cache/neomutt, .config/mutt, .config/neomutt, .muttrc, .neomutt, .neomuttrc"),
    NameList(".purple, .weechat, .zoom, Mail, Maildir"),
    // Wallets.
    NameList(
        ".armory, .config/Exodus, .config/Ledger Live, .dogecoin, .litecoin, .monero, .zcash, \
        Library/Keychains, Library/Cookies",
    ),
    // Accounts of programs that store passwords or tokens, each named in the program's own documentation: FileZilla
    // (Configuration files), lab and jira-cli (README), opencode (Auth), Postman, Insomnia, DBeaver (Administration),
    // Remmina, Exercism, python-gitlab, Transifex, Earth Engine, Infisical, step, mkcert, acme.sh, Caddy, KDE Connect,
    // Mailspring, Nextcloud, gajim, and profanity.
    // And: coursier (Credentials), Leiningen (Deploying Libraries), sbt (Publishing), TigerVNC and TightVNC (vncpasswd), and
    // asciinema (the token in its install ID).
    NameList(
        ".acme.sh, .config/asciinema, .config/coursier/credentials.properties, .config/tigervnc, \
        .lein/credentials.clj, .lein/credentials.clj.gpg, .sbt/credentials, .vnc, .config/.jira, \
        .config/Insomnia, .config/Mailspring, .config/Nextcloud, .config/Postman, .config/earthengine, \
        .config/exercism, .config/filezilla, .config/infisical, .config/kdeconnect, .config/lab, \
        .config/python-gitlab.cfg, .config/remmina, .filezilla, .infisical, .jira.d, \
        .local/share/DBeaverData, .local/share/caddy, .local/share/gajim, .local/share/mkcert, \
        .local/share/opencode/mcp-auth.json, .local/share/profanity, .local/share/remmina, \
        .local/state/syncthing, .python-gitlab.cfg, .step, .transifexrc",
    ),
];

/// Folders of the home folder in which people keep password databases and keys, the home folder itself first.
#[rustfmt::skip]
const KEY_FOLDERS: &[&str] = &[
    "", "Desktop", "Documents", "Downloads", "Dropbox", "Nextcloud", "Sync",
];

/// Endings of password databases and key files, in lower case.
const KEY_ENDINGS: &[&str] = &[".kdbx", ".kdb", ".p12", ".pfx", ".ppk", ".jks", ".agekey"];

/// Folders in which programs keep histories, besides the home folder itself (XDG Base Directory Specification).
const HISTORY_FOLDERS: &[&str] = &[".cache", ".local/share", ".local/state"];

/// Endings of histories after that word.
const HISTORY_EXTENSIONS: &[&str] = &[".db", ".json", ".jsonl", ".log", ".sqlite", ".sqlite3", ".txt"];

/// Configurations of programs that may contain tokens, relative to the home folder.
const TOKEN_FILES: &[NameList] = &[
    NameList(
        ".config/dart/pub-credentials.json, .condarc, .curlrc, .gitcookies, .Renviron, .npmrc, \
        .pub-cache/credentials.json, .yarnrc, .nuget/NuGet/NuGet.Config, .wgetrc, .yarnrc.yml, .pypirc, \
        .netrc, _netrc, .git-credentials, .config/git/credentials, .docker/config.json, .cargo/credentials, \
        .cargo/credentials.toml, .m2/settings.xml, .m2/settings-security.xml, .gradle/gradle.properties, \
        .gem/credentials, .bundle/config, .composer/auth.json, .config/composer/auth.json, \
        .config/containers/auth.json, .config/pypoetry/auth.toml, .terraformrc, .bunfig.toml, \
        .config/pip/pip.conf, .config/pnpm/rc, .expo/state.json, .local/share/gem/credentials, \
        .pip/pip.conf, .claude.json",
    ),
    // sbt compiles all files in this folder, and fails if it cannot read one.
    NameList(".sbt/1.0/credentials.sbt"),
];

/// Variables that name the place of secrets: the rule, and the part of the place that is secret. A value may list
/// several places.
#[rustfmt::skip]
const SECRET_VARIABLES: &[(&str, PathRule, &[&str])] = &[
    ("ANSIBLE_BECOME_PASSWORD_FILE", PathRule::Hide, &[""]),
    ("ANSIBLE_CONNECTION_PASSWORD_FILE", PathRule::Hide, &[""]),
    ("ANSIBLE_VAULT_PASSWORD_FILE", PathRule::Hide, &[""]),
    ("AWS_CONFIG_FILE", PathRule::Hide, &[""]),
    ("AWS_SHARED_CREDENTIALS_FILE", PathRule::Hide, &[""]),
    ("AZURE_CONFIG_DIR", PathRule::Hide, &[""]),
    ("BOTO_CONFIG", PathRule::Hide, &[""]),
    ("CLAUDE_CONFIG_DIR", PathRule::Hide, &[".credentials.json", "history.jsonl", "projects"]),
    ("CLAUDE_CONFIG_DIR", PathRule::Blank, &[".claude.json"]),
    ("CLOUDSDK_CONFIG", PathRule::Hide, &[""]),
    ("CODEX_HOME", PathRule::Hide, &["auth.json", "history.jsonl", "sessions"]),
    ("DATABRICKS_CONFIG_FILE", PathRule::Hide, &[""]),
    ("GH_CONFIG_DIR", PathRule::Hide, &[""]),
    ("GNUPGHOME", PathRule::Hide, &[""]),
    ("GOOGLE_APPLICATION_CREDENTIALS", PathRule::Hide, &[""]),
    ("HF_HOME", PathRule::Hide, &["token", "stored_tokens"]),
    ("HISTFILE", PathRule::Hide, &[""]),
    ("KAGGLE_CONFIG_DIR", PathRule::Hide, &[""]),
    ("KUBECONFIG", PathRule::Hide, &[""]),
    ("PASSWORD_STORE_DIR", PathRule::Hide, &[""]),
    ("PGPASSFILE", PathRule::Hide, &[""]),
    ("PULUMI_HOME", PathRule::Hide, &["credentials.json"]),
    ("RCLONE_CONFIG", PathRule::Hide, &[""]),
    ("RESTIC_PASSWORD_FILE", PathRule::Hide, &[""]),
    ("SOPS_AGE_KEY_FILE", PathRule::Hide, &[""]),
    ("CARGO_HOME", PathRule::Blank, &["credentials", "credentials.toml"]),
    ("COMPOSER_HOME", PathRule::Blank, &["auth.json"]),
    ("DOCKER_CONFIG", PathRule::Blank, &["config.json"]),
    ("GRADLE_USER_HOME", PathRule::Blank, &["gradle.properties"]),
    ("NETRC", PathRule::Blank, &[""]),
    ("NPM_CONFIG_USERCONFIG", PathRule::Blank, &[""]),
    ("npm_config_userconfig", PathRule::Blank, &[""]),
    ("PIP_CONFIG_FILE", PathRule::Blank, &[""]),
    ("TF_CLI_CONFIG_FILE", PathRule::Blank, &[""]),
];

/// Variables that name the sockets of services, as a path or in an address such as `unix:///run/docker.sock`. A service
/// in another network namespace is in no list of ours.
#[rustfmt::skip]
const SOCKET_VARIABLES: &[&str] = &[
    "CONTAINERD_ADDRESS", "CONTAINER_HOST", "CONTAINER_RUNTIME_ENDPOINT", "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS", "DOCKER_HOST", "GPG_AGENT_INFO", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR",
];

/// Files of the system that only root can read: they matter if this program runs as root. Snapshots of the disk, which
/// have copies of everything that is hidden. And sockets of services, where
/// `/var/run` is not a link to `/run`.
const SYSTEM_SECRETS: &[NameList] = &[NameList(
    "/mnt/wsl/docker-desktop, /var/run/containerd, /var/run/crio, /var/run/dbus, /var/run/docker.sock, \
        /var/run/podman, /etc/shadow, /etc/shadow-, /etc/gshadow, /etc/gshadow-, /etc/passwd-, \
        /etc/security/opasswd, /etc/sudoers, /etc/sudoers.d, /etc/ssl/private, /.snapshots, \
        /home/.snapshots, /timeshift, /var/lib/docker, /var/lib/containerd, /var/lib/incus/unix.socket, \
        /var/lib/lxd/unix.socket, /var/snap/lxd/common/lxd/unix.socket",
)];

fn list_names_of(table: &'static [NameList]) -> impl Iterator<Item = &'static str> {
    table.iter().flat_map(|names| names.iter())
}

/// Lists the files and sockets of [`SYSTEM_SECRETS`].
pub(super) fn list_system_secrets() -> impl Iterator<Item = PathBuf> {
    list_names_of(SYSTEM_SECRETS).map(PathBuf::from)
}

/// Lists the rules for what is private in the home folder.
///
/// A folder of keys that cannot be listed stays open if one of `workspaces` is in it.
pub(super) fn list_home_secrets(home: &Path, workspaces: &[PathBuf]) -> Vec<(PathRule, PathBuf)> {
    let hidden = list_names_of(SECRETS).map(|name| (PathRule::Hide, home.join(name)));
    let blank = list_names_of(TOKEN_FILES).map(|name| (PathRule::Blank, home.join(name)));
    let found = list_key_files(home).into_iter().chain(list_histories(home));
    let found = found.filter(|path| !workspaces.iter().any(|workspace| workspace.starts_with(path)));
    let found = found.map(|path| (PathRule::Hide, path));
    hidden.chain(blank).chain(found).collect()
}

/// Lists the password databases and key files in the usual folders, in order. Those in further folders stay readable.
///
/// Looks at all names: a limit would leave out some of them, whichever the system lists last.
fn list_key_files(home: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for name in KEY_FOLDERS {
        let folder = home.join(name);
        match list_keys_in(&folder) {
            Ok(found) => files.extend(found),
            // Its files may be readable, though it cannot be listed.
            Err(error) if error.kind() != ErrorKind::NotFound && !name.is_empty() => files.push(folder),
            Err(_) => {}
        }
    }
    files.sort_unstable();
    files
}

fn list_keys_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    list_names(folder, |name| {
        let name = name.to_lowercase();
        KEY_ENDINGS.iter().any(|ending| name.ends_with(ending))
    })
}

/// Lists the histories of programs that are in no table, in order.
fn list_histories(home: &Path) -> Vec<PathBuf> {
    let hidden = list_names(home, |name| name.starts_with('.') && is_history(name));
    let others = HISTORY_FOLDERS
        .iter()
        .map(|folder| list_names(&home.join(folder), is_history));
    let mut files: Vec<PathBuf> = [hidden].into_iter().chain(others).flatten().flatten().collect();
    files.sort_unstable();
    files
}

/// Returns whether a name is that of a history: `.NAME_history`, `NAME-history.txt`.
fn is_history(name: &str) -> bool {
    let name = name.to_lowercase();
    let stem = (HISTORY_EXTENSIONS.iter()).find_map(|extension| name.strip_suffix(extension));
    let stem = stem.unwrap_or(&name);
    ["history", "_hist", "-hist", "lesshst"]
        .iter()
        .any(|ending| stem.ends_with(ending))
}

fn list_names(folder: &Path, is_wanted: impl Fn(&str) -> bool) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if is_wanted(&entry.file_name().to_string_lossy()) {
            files.push(entry.path());
        }
    }
    Ok(files)
}

/// Lists the places of secrets in the home folder, with the key files in its usual folders.
pub fn list_secret_places(home: &Path) -> impl Iterator<Item = PathBuf> {
    let known = list_names_of(SECRETS)
        .chain(list_names_of(TOKEN_FILES))
        .map(|name| home.join(name));
    known.chain(list_key_files(home)).chain(list_histories(home))
}

/// Lists the secrets whose place a variable names, and those below a folder that a variable moves.
pub(super) fn list_named_secrets(variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<(PathRule, PathBuf)> {
    let mut rules = Vec::new();
    for (name, rule, parts) in SECRET_VARIABLES {
        let places = variable(name).unwrap_or_default();
        for place in std::env::split_paths(&places).filter(|place| place.is_absolute()) {
            // Joining an empty part would end the path of a file with a slash.
            rules.extend(parts.iter().map(|part| match *part {
                "" => (*rule, place.clone()),
                part => (*rule, place.join(part)),
            }));
        }
    }
    for (name, usual) in FOLDER_VARIABLES {
        let Some(folder) = variable(name).filter(|path| path.is_absolute()) else {
            continue;
        };
        for (rule, names) in [(PathRule::Hide, SECRETS), (PathRule::Blank, TOKEN_FILES)] {
            let names = list_names_of(names).filter_map(|name| name.strip_prefix(usual));
            rules.extend(names.map(|name| (rule, folder.join(name))));
        }
    }
    for name in SOCKET_VARIABLES {
        let paths = variable(name).map(|value| list_addressed_paths(&value));
        let paths = paths.into_iter().flatten();
        rules.extend(paths.map(|path| (PathRule::Hide, path)));
    }
    rules
}

/// Returns the absolute paths in an address: what is between the marks of `unix:path=/a,guid=1;unix:path=/b`, of
/// `unix:///a`, and of `/a:1:2`. A host, as in `tcp://host`, is not a path.
fn list_addressed_paths(address: &Path) -> Vec<PathBuf> {
    let address = address.to_string_lossy();
    let parts = address.split([':', ',', ';', '=']);
    let paths =
        parts.filter(|part| part.starts_with("///") || part.starts_with('/') && !part.starts_with("//"));
    // Collecting the components drops the further slashes.
    paths.map(|path| Path::new(path).components().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histories_of_any_program_are_hidden() {
        let home = tempfile::tempdir().unwrap();
        let histories = [
            ".cache/x/y_history",
            ".duckdb_history",
            ".local/state/lesshst",
            ".local/state/sqlite_history",
            ".mycli-history",
            ".ts_node_repl_history",
            ".usql_history.txt",
        ];
        for name in histories
            .iter()
            .chain(&[".bashrc", "history", ".local/state/x", ".historical"])
        {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let expected = histories[1..].iter().map(|name| home.path().join(name));
        assert_eq!(list_histories(home.path()), expected.collect::<Vec<_>>());
    }

    #[test]
    fn a_folder_of_keys_that_cannot_be_listed_is_hidden_unless_a_workspace_is_in_it() {
        let home = tempfile::tempdir().unwrap();
        // Root can list every folder.
        let folder = home.path().join("Documents");
        fs::write(&folder, "").unwrap();
        let hides = |workspace: &str| {
            let hidden = list_home_secrets(home.path(), &[home.path().join(workspace)]);
            hidden.contains(&(PathRule::Hide, folder.clone()))
        };
        assert!(hides("project") && !hides("Documents/project"));
    }

    #[test]
    fn all_key_files_are_listed_in_order_however_many_files_there_are() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("Documents");
        fs::create_dir(&folder).unwrap();
        let mut keys: Vec<PathBuf> = (0..1_200)
            .map(|number| folder.join(format!("{number:04}.KDBX")))
            .collect();
        keys.push(home.path().join("all.p12"));
        for path in keys.iter().chain(&[folder.join("notes.txt")]) {
            fs::write(path, "").unwrap();
        }
        keys.sort();
        assert_eq!(list_key_files(home.path()), keys);
        let hidden = list_home_secrets(home.path(), &[]);
        assert!(
            keys.iter()
                .all(|key| hidden.contains(&(PathRule::Hide, key.clone())))
        );
    }
}
