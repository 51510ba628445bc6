//! Rules that the compiler does not check.
//!
//! They cover imports between modules, the length of files, and the documentation of modules and public items.
//! Workspace files are opened only without following links.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The allowed imports, besides `base` and `domain`. A module that is not listed may import nothing else.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("domain", &[]),
    ("protocol", &[]),
    ("transport", &[]),
    // `config` parses rules with the parser of `approval`, so both read a rule alike.
    ("config", &["approval"]),
    ("store", &[]),
    ("sandbox", &[]),
    ("proxy", &[]),
    ("workspace", &["config", "proxy", "sandbox"]),
    ("observe", &["config"]),
    ("provider", &["config"]),
    ("oauth", &["config"]),
    ("approval", &[]),
    ("mcp", &["workspace", "oauth", "config"]),
    ("tool", &["workspace", "proxy", "mcp", "config"]),
    ("context", &["provider", "workspace", "config"]),
    (
        "turn",
        &["context", "provider", "tool", "approval", "workspace", "config"],
    ),
    (
        "session",
        &[
            "turn",
            "context",
            "store",
            "provider",
            "tool",
            "approval",
            "mcp",
            "workspace",
            "config",
        ],
    ),
    // `server` converts values of sessions and the store; it does not call providers.
    (
        "server",
        &[
            "session",
            "store",
            "provider",
            "tool",
            "mcp",
            "transport",
            "protocol",
            "workspace",
            "config",
        ],
    ),
    // The second edge imports what `server` imports, with shapes of its own instead of `protocol`.
    (
        "acp",
        &[
            "session",
            "store",
            "provider",
            "tool",
            "transport",
            "workspace",
            "config",
        ],
    ),
    // `config test` judges as a session does, with the same rules and the same view of files. `prompt` prints the
    // built-in instructions.
    (
        "cli",
        &[
            "protocol",
            "transport",
            "config",
            "context",
            "provider",
            "approval",
            "mcp",
            "workspace",
            "proxy",
            "sandbox",
        ],
    ),
];

/// The most lines that a file may have before its tests.
const MAX_LINES: usize = 800;

fn source_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            source_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn files() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    source_files(&root, &mut paths);
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path.strip_prefix(&root).unwrap().to_path_buf(), text)
    };
    paths.into_iter().map(read).collect()
}

/// Returns the part of a file before its tests.
fn shipped_part(text: &str) -> &str {
    text.find("\n#[cfg(test)]\nmod ").map_or(text, |at| &text[..at])
}

fn module_of(path: &Path) -> String {
    let first = path.components().next().unwrap().as_os_str().to_str().unwrap();
    first.trim_end_matches(".rs").to_owned()
}

fn is_test_file(path: &Path) -> bool {
    let name = path.file_stem().unwrap().to_str().unwrap();
    name == "tests"
        || name.ends_with("_tests")
        || name == "testing"
        || path.iter().any(|part| part == "tests")
}

#[test]
fn imports_follow_the_layer_table() {
    let allowed: BTreeMap<&str, BTreeSet<&str>> = MAY_IMPORT
        .iter()
        .map(|(module, may)| (*module, may.iter().copied().collect()))
        .collect();
    let mut wrong = Vec::new();
    for (path, text) in files() {
        let module = module_of(&path);
        if module == "main" || module == "lib" || is_test_file(&path) {
            continue;
        }
        for (number, line) in shipped_part(&text).lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for target in code.split("crate::").skip(1) {
                let target: String = target
                    .chars()
                    .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                    .collect();
                let free =
                    matches!(target.as_str(), "base" | "domain") || target == module || target.is_empty();
                // `base` imports nothing; `domain` must not depend on the wire.
                let bound =
                    module == "base" && target != "base" || module == "domain" && target == "protocol";
                let listed = allowed
                    .get(module.as_str())
                    .is_some_and(|may| may.contains(target.as_str()));
                if bound || !(free || listed) {
                    wrong.push(format!(
                        "{}:{}: {module} imports {target}",
                        path.display(),
                        number + 1
                    ));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "imports that the table does not allow:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn files_stay_below_the_line_limit() {
    let long: Vec<String> = files()
        .iter()
        .filter(|(path, _)| !is_test_file(path))
        .map(|(path, text)| (path, shipped_part(text).lines().count()))
        .filter(|(_, lines)| *lines > MAX_LINES)
        .map(|(path, lines)| format!("{}: {lines} lines", path.display()))
        .collect();
    assert!(
        long.is_empty(),
        "files with more than one purpose?\n{}",
        long.join("\n")
    );
}

#[test]
fn every_module_has_a_header() {
    let silent: Vec<String> = files()
        .iter()
        .filter(|(_, text)| !text.starts_with("//!"))
        .map(|(path, _)| path.display().to_string())
        .collect();
    assert!(silent.is_empty(), "no `//!` header: {}", silent.join(", "));
}

/// Items that another module uses. Fields and variants may explain themselves.
const PUBLIC_ITEMS: &[&str] = &[
    "pub fn ",
    "pub async fn ",
    "pub const ",
    "pub static ",
    "pub struct ",
    "pub enum ",
    "pub trait ",
    "pub type ",
];

#[test]
fn public_items_are_documented() {
    let mut undocumented = Vec::new();
    for (path, text) in files().iter().filter(|(path, _)| !is_test_file(path)) {
        let lines: Vec<&str> = shipped_part(text).lines().map(str::trim).collect();
        for (index, line) in lines.iter().enumerate() {
            // Attributes may separate an item from its documentation.
            let above = lines[..index].iter().rev();
            let documented = || {
                above
                    .take_while(|line| !line.is_empty() && !line.ends_with(['{', '}', ';']))
                    .any(|line| line.starts_with("///"))
            };
            let public = PUBLIC_ITEMS.iter().any(|item| line.starts_with(item));
            // A macro's items take their documentation from where it is used.
            if public && !line.contains('$') && !documented() {
                undocumented.push(format!("{}:{}: {line}", path.display(), index + 1));
            }
        }
    }
    assert!(
        undocumented.is_empty(),
        "public items without a doc comment:\n{}",
        undocumented.join("\n")
    );
}

/// Calls that open a file by path: they follow links and block on pipes.
const BY_PATH: &[&str] = &[
    "std::fs",
    "tokio::fs",
    "File::open(",
    "File::create(",
    "File::options(",
    "OpenOptions",
    "read_dir(",
    "WalkBuilder",
    "WalkDir",
    "symlink_metadata",
    "path.metadata(",
    "path().metadata(",
    ".read_link()",
    ".canonicalize()",
    ".exists()",
    ".is_file()",
    ".is_dir()",
    "rustix::fs::open",
    "openat",
];

/// Files that may use these calls, because a repository cannot provide the path, or because they read nothing.
/// Everything else goes through `base::nofollow`.
const MAY_OPEN_BY_PATH: &[(&str, &str)] = &[
    (
        "acp/sessions.rs",
        "checks whether a session's folder is one; reads nothing",
    ),
    ("base/memory.rs", "/proc: how much memory this process has"),
    ("base/nofollow.rs", "the one way to a workspace file"),
    ("base/private.rs", "the data folder and the folder of logs"),
    ("cli/chat/changes.rs", "the terminal"),
    ("cli/chat/kept_draft.rs", "the user's own data folder"),
    ("cli/mentions.rs", "lists names for the person who types them"),
    (
        "cli/chat/input.rs",
        "completes names for the user, and keeps the history of the input line",
    ),
    (
        "cli/config.rs",
        "checks which of the configuration files exist; `config` reads them",
    ),
    ("cli/demo/mod.rs", "a scratch folder of its own"),
    ("cli/demo/scratch.rs", "a scratch folder of its own"),
    (
        "cli/doctor/system.rs",
        "checks which files exist, and whether our own folders are writable",
    ),
    ("cli/external_editor.rs", "a private temporary file"),
    (
        "cli/mod.rs",
        "the folder and the file that the user names on the command line",
    ),
    ("cli/sessions.rs", "writes the file that the user names"),
    (
        "config/layers.rs",
        "resolves paths; reads through `base::nofollow`",
    ),
    ("config/login_keys.rs", "the data folder"),
    ("cli/sandbox_test.rs", "a scratch folder of its own"),
    ("cli/sandbox_tools.rs", "a scratch folder of its own"),
    (
        "cli/mcp/checks.rs",
        "the program of a server, as its start finds it",
    ),
    ("cli/mcp/edit.rs", "the user's own config file"),
    ("cli/models_update.rs", "a file that the user names"),
    (
        "mcp/program_folder.rs",
        "creates the folder of a server's program, below the data folder",
    ),
    ("oauth/store.rs", "the data folder"),
    ("observe/rolling.rs", "logs"),
    ("provider/models/catalog/download.rs", "the data folder"),
    ("provider/record.rs", "recordings, where the user says"),
    ("provider/script.rs", "a script that the user names"),
    (
        "sandbox/linux/bubblewrap.rs",
        "/proc, /dev/null, and system folders; checks what the rules name, and reads nothing of it",
    ),
    (
        "sandbox/linux/mod.rs",
        "/proc; resolves the paths that are mounted",
    ),
    (
        "sandbox/linux/mounts.rs",
        "/proc and /dev; asks what is at the paths that are mounted",
    ),
    (
        "sandbox/cache_layers.rs",
        "the layers of caches, in the data folder",
    ),
    ("sandbox/expand.rs", "resolves the paths of rules; reads nothing"),
    ("sandbox/home_paths.rs", "lists names and links; opens nothing"),
    ("sandbox/links.rs", "follows links; opens nothing"),
    (
        "sandbox/linux/second_paths.rs",
        "/proc; compares what is at paths; opens nothing",
    ),
    ("sandbox/linux/mount_table.rs", "/proc"),
    (
        "sandbox/secret_places.rs",
        "lists the names of keys in the home folder",
    ),
    (
        "sandbox/linux/overlay.rs",
        "opens the folders that are mounted; reads nothing of them",
    ),
    ("sandbox/linux/sockets.rs", "/proc; resolves the paths of sockets"),
    (
        "sandbox/linux/system_calls.rs",
        "names system calls; opens nothing",
    ),
    ("sandbox/private_temp.rs", "a private temporary folder"),
    (
        "sandbox/steering_files.rs",
        "resolves paths; reads through `base::nofollow`",
    ),
    (
        "sandbox/steering_inventory.rs",
        "resolves paths; reads through `base::nofollow`",
    ),
    (
        "sandbox/visible_paths.rs",
        "resolves the paths of programs; reads through `base::nofollow`",
    ),
    (
        "server/handlers/sessions.rs",
        "checks whether a session's folder is one; reads nothing",
    ),
    ("store/content.rs", "the data folder"),
    ("store/files.rs", "the data folder"),
    ("store/file_snapshots.rs", "the data folder"),
    ("store/lock.rs", "the data folder"),
    ("store/recovery.rs", "the data folder"),
    ("store/salvage.rs", "the data folder"),
    ("store/schema.rs", "the data folder"),
    ("store/writer.rs", "the data folder"),
    ("transport/stdio.rs", "/dev/null"),
    (
        "workspace/process/exec.rs",
        "checks whether a command's folder can be entered",
    ),
    ("workspace/process/process_tree.rs", "/proc"),
    (
        "workspace/process/lookup.rs",
        "the folders of PATH; reads nothing",
    ),
    ("workspace/process/spawn.rs", "/dev/null"),
    (
        "workspace/process/unnamed_file.rs",
        "a private temporary file, removed at once",
    ),
    (
        "workspace/real_path.rs",
        "follows links to judge where they lead; reads nothing",
    ),
    (
        "workspace/resolve.rs",
        "checks whether a path exists; reads nothing",
    ),
    ("workspace/steering_record.rs", "the data folder"),
    (
        "workspace/steering_snapshot.rs",
        "resolves links; reads and writes through `base::nofollow`",
    ),
];

#[test]
fn workspace_files_are_opened_through_nofollow() {
    let allowed: BTreeMap<&str, &str> = MAY_OPEN_BY_PATH.iter().copied().collect();
    let mut used = BTreeSet::new();
    let mut wrong = Vec::new();
    for (path, text) in files() {
        if is_test_file(&path) {
            continue;
        }
        let shipped = text
            .find("\n#[cfg(test)]\n")
            .map_or(text.as_str(), |at| &text[..at]);
        let name = path.to_str().unwrap();
        for (number, line) in shipped.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            // An import of the type opens nothing.
            if code.trim() == "use std::fs::File;" {
                continue;
            }
            // `RegularFile::open` is the safe call, but contains `File::open(`.
            let code = code.replace("RegularFile::open(", "");
            let Some(pattern) = BY_PATH.iter().find(|pattern| code.contains(**pattern)) else {
                continue;
            };
            if allowed.contains_key(name) {
                used.insert(name.to_owned());
            } else {
                wrong.push(format!("{name}:{}: {pattern}", number + 1));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "open workspace files through base::nofollow, or say in the table why not:\n{}",
        wrong.join("\n")
    );
    let unused: Vec<&&str> = allowed.keys().filter(|name| !used.contains(**name)).collect();
    assert!(unused.is_empty(), "not needed in the table any more: {unused:?}");
}

/// The files of `session` that may await. All others are handlers and the parts of the actor, which never do: a cancel
/// or a delta must not wait behind a slow folder or disk.
const MAY_AWAIT: &[(&str, &str)] = &[
    ("session/actor.rs", "the loop, and the session's end"),
    (
        "session/cancel_queue.rs",
        "waits for a cancel, as a source of the loop",
    ),
    ("session/checkpoints.rs", "I/O futures of a turn's changes"),
    (
        "session/command.rs",
        "waits for a turn's outcome, outside the actor",
    ),
    ("session/daily_spend.rs", "reads the store for the ledger"),
    ("session/fork.rs", "an operation of the manager"),
    ("session/io.rs", "the I/O futures of operations"),
    ("session/journal.rs", "waits for answers, as a source of the loop"),
    ("session/manager.rs", "waits for the actors' answers"),
    ("session/models.rs", "resolves models for turns"),
    ("session/models/check.rs", "reads model lists for the edge"),
    ("session/models/credentials.rs", "asks the editor for keys"),
    ("session/models/engines.rs", "reads the windows of local engines"),
    ("session/models/learnt.rs", "reads the stored windows"),
    ("session/models/lists.rs", "reads model lists"),
    ("session/editor_credentials.rs", "asks the editor for keys"),
    (
        "session/new_files.rs",
        "an I/O future of the loop, and the session's end",
    ),
    (
        "session/panic_recovery.rs",
        "runs the actor, and replaces one that panicked",
    ),
    ("session/revert.rs", "the I/O future of a revert"),
    ("session/server_content.rs", "I/O futures of `session/io.rs`"),
    ("session/services.rs", "waits for the store, outside the actor"),
    ("session/open.rs", "operations of the manager"),
    ("session/stored.rs", "operations of the manager"),
    ("session/subagent.rs", "the tasks of turns and their children"),
    ("session/subagent/bridge.rs", "a child's own task"),
    ("session/system_prompt.rs", "reads slash commands for the edge"),
    ("session/test_requests.rs", "waits for the actors' answers"),
];

/// Returns whether a line awaits, or begins a function that may.
fn awaits(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let is_word = |rest: &str| rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    code.contains("async ") || code.split(".await").skip(1).any(|rest| !is_word(rest))
}

#[test]
fn handlers_of_the_session_actor_never_await() {
    let allowed: BTreeMap<&str, &str> = MAY_AWAIT.iter().copied().collect();
    let mut awaiting = BTreeSet::new();
    let mut wrong = Vec::new();
    for (path, text) in files() {
        let name = path.to_str().unwrap();
        if !path.starts_with("session") || is_test_file(&path) {
            continue;
        }
        for (number, line) in shipped_part(&text).lines().enumerate() {
            if !awaits(line) {
                continue;
            }
            if allowed.contains_key(name) {
                awaiting.insert(name.to_owned());
            } else {
                wrong.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "put I/O of the actor into `session/io.rs` as a future:\n{}",
        wrong.join("\n")
    );
    let unused: Vec<&&str> = allowed.keys().filter(|name| !awaiting.contains(**name)).collect();
    assert!(unused.is_empty(), "not needed in the table any more: {unused:?}");
}

/// The functions of the actor's file that may await. The handlers next to them must not.
const AWAITING_ACTOR_FUNCTIONS: &[&str] = &["run", "next_event", "shut_down", "release"];

#[test]
fn only_the_actors_loop_awaits() {
    let (_, text) = files()
        .into_iter()
        .find(|(path, _)| path == Path::new("session/actor.rs"))
        .unwrap();
    let syntax = syn::parse_file(&text).unwrap();
    let methods = syntax.items.iter().filter_map(|item| match item {
        syn::Item::Impl(item) => Some(&item.items),
        _ => None,
    });
    let asynchronous = methods.flatten().filter_map(|item| match item {
        syn::ImplItem::Fn(method) if method.sig.asyncness.is_some() => Some(method.sig.ident.to_string()),
        _ => None,
    });
    let asynchronous: Vec<String> = asynchronous.collect();
    assert_eq!(asynchronous, AWAITING_ACTOR_FUNCTIONS);
}

#[test]
fn the_server_does_not_reach_through_the_session_manager() {
    let reaching: Vec<String> = files()
        .iter()
        .filter(|(path, text)| path.starts_with("server") && shipped_part(text).contains(".services()"))
        .map(|(path, _)| path.display().to_string())
        .collect();
    assert!(
        reaching.is_empty(),
        "give `SessionManager` an operation instead: {}",
        reaching.join(", ")
    );
}

/// Signs of a wire format.
const WIRE_FORMS: &[&str] = &["schemars", "JsonSchema", "camelCase"];

/// The serde of domain types is the disk format, so that the protocol can change without it.
#[test]
fn domain_types_have_no_wire_form() {
    let on_wire: Vec<String> = files()
        .iter()
        .filter(|(path, _)| path.starts_with("domain"))
        .filter(|(_, text)| WIRE_FORMS.iter().any(|sign| shipped_part(text).contains(sign)))
        .map(|(path, _)| path.display().to_string())
        .collect();
    assert!(
        on_wire.is_empty(),
        "wire shapes live in `protocol`: {}",
        on_wire.join(", ")
    );
}
