//! What is put aside, put back, or left alone.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::workspace::watch::ExternalWrites;

struct Fixture {
    _dir: tempfile::TempDir,
    folders: Vec<PathBuf>,
    watch: SteeringWatch,
    external: ExternalWrites,
    options: SnapshotOptions,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self {
            folders: vec![dir.path().canonicalize().unwrap()],
            _dir: dir,
            watch: SteeringWatch::default(),
            external: ExternalWrites::default(),
            options: SnapshotOptions::default(),
        }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folders[0].join(file)
    }

    fn write(&self, file: &str) -> PathBuf {
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, file).unwrap();
        path
    }

    fn start(&self) -> WatchedCommand {
        self.start_with(false)
    }

    fn start_with(&self, reserves_names: bool) -> WatchedCommand {
        self.watch.start_command(
            self.folders.clone(),
            &self.options,
            |_| reserves_names,
            || self.external.start_watch(),
        )
    }

    /// Returns what is announced, by name.
    fn announce(&self) -> Vec<String> {
        let announced = self.watch.announce(&self.folders, Some(&BTreeSet::new()));
        announced.paths.iter().map(|path| self.name(path)).collect()
    }

    fn new_without_mounts() -> Self {
        Self {
            options: SnapshotOptions {
                keeps_contents: true,
                named: Vec::new(),
            },
            ..Self::new()
        }
    }

    fn settle(&self, earlier: &EarlierChanges) -> Vec<SteeringChange> {
        let plain = BTreeSet::new();
        self.watch.settle(&self.folders, earlier, Some(&plain)).changes
    }

    /// Returns what was undecided, by name, without an answer.
    fn list_undecided(&self, earlier: &EarlierChanges) -> Vec<String> {
        let changes = self.settle(earlier).into_iter();
        let undecided = changes.filter(|change| matches!(change.outcome, SteeringOutcome::Undecided));
        undecided.map(|change| self.name(&change.path)).collect()
    }

    fn name(&self, path: &Path) -> String {
        path.strip_prefix(&self.folders[0]).unwrap().display().to_string()
    }

    /// Returns the names of what is put aside, before and after, as all of one command.
    fn put_aside(&self) -> Vec<(String, String)> {
        let changes = self.settle(&NOTHING);
        let pairs = changes.iter().map(|change| match &change.outcome {
            SteeringOutcome::Aside(aside) => (self.name(&change.path), self.name(aside)),
            SteeringOutcome::PutBack => (self.name(&change.path), "back".to_owned()),
            other => panic!("{other:?}"),
        });
        pairs.collect()
    }
}

/// Nothing had changed, and no command runs outside of the sandbox.
const NOTHING: EarlierChanges = EarlierChanges {
    paths: BTreeMap::new(),
    unconfined_ended: Some(0),
};

fn pair(before: &str, after: &str) -> (String, String) {
    (before.to_owned(), after.to_owned())
}

#[test]
fn only_what_a_command_created_is_put_aside() {
    let fixture = Fixture::new();
    fixture.write("AGENTS.md");
    fixture.write(".git/config");
    drop(fixture.start());
    for file in [
        ".vscode/tasks.json",
        ".git/hooks/pre-commit",
        ".git/info/attributes",
        "src/lib.rs",
        "CLAUDE.md",
        "put-aside-CLAUDE.md",
    ] {
        fixture.write(file);
    }
    fixture.external.write(&fixture.write(".cargo/config.toml"));
    fixture.external.write(&fixture.write(".envrc"));
    let expected = [
        pair(".git/hooks", ".git/put-aside-hooks"),
        pair(".git/info/attributes", ".git/info/put-aside-attributes"),
        pair(".vscode", "put-aside-.vscode"),
        pair("CLAUDE.md", "put-aside-2-CLAUDE.md"),
    ];
    assert_eq!(fixture.put_aside(), expected);
    assert_eq!(
        fs::read_to_string(fixture.path("put-aside-.vscode/tasks.json")).unwrap(),
        ".vscode/tasks.json"
    );
    fixture.write(".vscode/later.json");
    assert!(fixture.put_aside().is_empty(), "no command ran since");
}

#[test]
fn the_watch_lasts_while_a_command_runs() {
    let fixture = Fixture::new();
    let background = fixture.start();
    drop(fixture.start());
    assert!(fixture.put_aside().is_empty());
    fixture.write(".vscode/a");
    let mut changes = fixture.settle(&NOTHING);
    fixture.watch.keep(&fixture.folders, &mut changes[0]).unwrap();
    assert!(fixture.path(".vscode/a").exists());
    assert!(fixture.put_aside().is_empty(), "the user keeps it");
    fixture.external.write(&fixture.write(".idea/by_tool"));
    fixture.write(".idea/by_command");
    drop(background);
    // Only the tool's file was approved in the new folder.
    assert_eq!(
        fixture.put_aside(),
        [pair(".idea/by_command", ".idea/put-aside-by_command")]
    );
}

#[test]
fn what_others_may_have_made_keeps_its_name_until_the_user_has_answered() {
    let fixture = Fixture::new();
    let background = fixture.start();
    fixture.write(".vscode/a");
    let earlier = fixture.watch.list_changes(&fixture.folders);
    drop(fixture.start());
    fixture.write("CLAUDE.md");
    let mut changes = fixture.settle(&earlier);
    let outcomes: Vec<_> = changes.iter().map(|change| &change.outcome).collect();
    assert!(
        matches!(
            outcomes[..],
            [SteeringOutcome::Undecided, SteeringOutcome::Aside(_)]
        ),
        "{outcomes:?}"
    );
    assert!(fixture.path(".vscode/a").exists());
    assert!(fixture.put_aside().is_empty(), "the question is open");
    fixture.watch.put_aside(&fixture.folders, &mut changes[0]);
    assert!(fixture.path("put-aside-.vscode/a").exists());
    drop(background);
}

#[tokio::test]
async fn what_appears_after_the_last_process_is_not_asked_about() {
    let fixture = Fixture::new();
    let background = fixture.start();
    fixture.write(".vscode/a");
    background.finish().await;
    fixture.write("CLAUDE.md");
    let changes = fixture.settle(&EarlierChanges::default());
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert!(changes[0].path.ends_with(".vscode"));

    fixture.start().finish().await;
    fixture.write(".envrc");
    drop(fixture.start());
    assert!(
        fixture.put_aside().is_empty(),
        "it was there when the next one started"
    );
}

#[test]
fn a_link_is_renamed_itself_and_nothing_is_replaced() {
    let fixture = Fixture::new();
    let outside = tempfile::tempdir().unwrap();
    drop(fixture.start());
    symlink(outside.path(), fixture.path(".vscode")).unwrap();
    let mut changes = fixture.settle(&NOTHING);
    assert!(outside.path().exists());
    fixture.write(".vscode");
    let error = fixture.watch.keep(&fixture.folders, &mut changes[0]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
}

#[test]
fn a_replaced_link_comes_back_unless_it_would_lead_elsewhere() {
    let fixture = Fixture::new();
    for file in ["conf/tasks.json", "real/x", "docs/agents.md"] {
        fixture.write(file);
    }
    for (target, link) in [
        ("conf", ".vscode"),
        ("middle", ".idea"),
        ("real", "middle"),
        ("docs/agents.md", "AGENTS.md"),
        ("missing", ".envrc"),
    ] {
        symlink(target, fixture.path(link)).unwrap();
    }
    drop(fixture.start());
    assert!(fixture.put_aside().is_empty());
    drop(fixture.start());
    fs::remove_file(fixture.path(".vscode")).unwrap();
    fixture.write(".vscode/tasks.json");
    // The link itself is the same, and leads to a folder of the command.
    fs::remove_file(fixture.path("middle")).unwrap();
    fixture.write("middle/x");
    fs::remove_file(fixture.path("AGENTS.md")).unwrap();
    fixture.write("missing");
    let expected = [
        pair(".envrc", "put-aside-.envrc"),
        pair(".idea", "put-aside-.idea"),
        pair(".vscode", "put-aside-.vscode"),
        pair("AGENTS.md", "back"),
    ];
    assert_eq!(fixture.put_aside(), expected);
    assert_eq!(fs::read_link(fixture.path(".vscode")).unwrap(), Path::new("conf"));
    assert_eq!(
        fs::read_link(fixture.path("AGENTS.md")).unwrap(),
        Path::new("docs/agents.md")
    );
    for gone in [".idea", ".envrc"] {
        assert!(fs::symlink_metadata(fixture.path(gone)).is_err(), "{gone}");
    }
}

#[test]
fn a_kept_change_replaces_the_link_that_was_put_back() {
    let fixture = Fixture::new();
    fixture.write("conf/tasks.json");
    symlink("conf", fixture.path(".vscode")).unwrap();
    drop(fixture.start());
    fs::remove_file(fixture.path(".vscode")).unwrap();
    fixture.write(".vscode/new.json");
    let mut changes = fixture.settle(&NOTHING);
    assert!(fixture.path(".vscode").is_symlink());
    fixture.watch.keep(&fixture.folders, &mut changes[0]).unwrap();
    assert!(fixture.path(".vscode/new.json").exists() && !fixture.path(".vscode").is_symlink());
    assert!(fs::symlink_metadata(fixture.path("put-aside-.vscode")).is_err());
}

#[test]
fn without_mounts_contents_are_put_back() {
    let fixture = Fixture::new_without_mounts();
    for file in [
        ".git/config",
        ".git/HEAD",
        ".git/objects/a",
        ".vscode/a",
        ".vscode/b",
        ".idea/x/y",
    ] {
        fixture.write(file);
    }
    drop(fixture.start());
    assert!(fixture.put_aside().is_empty());
    drop(fixture.start());
    fs::write(fixture.path(".git/config"), "changed").unwrap();
    fs::write(fixture.path(".git/objects/a"), "changed").unwrap();
    fs::remove_file(fixture.path(".vscode/b")).unwrap();
    fixture.write(".vscode/c");
    fs::rename(fixture.path(".idea"), fixture.path("moved")).unwrap();
    let expected = [
        pair(".git/config", ".git/put-aside-config"),
        pair(".idea", "back"),
        pair(".idea/x", "back"),
        pair(".idea/x/y", "back"),
        pair(".vscode/b", "back"),
        pair(".vscode/c", ".vscode/put-aside-c"),
    ];
    assert_eq!(fixture.put_aside(), expected);
    for (file, content) in [
        (".git/config", ".git/config"),
        (".git/put-aside-config", "changed"),
        (".vscode/b", ".vscode/b"),
        (".idea/x/y", ".idea/x/y"),
    ] {
        assert_eq!(fs::read_to_string(fixture.path(file)).unwrap(), content, "{file}");
    }
}

#[test]
fn the_list_of_a_rebase_may_lose_commands_but_not_gain_any() {
    let fixture = Fixture::new();
    let list = fixture.path(".git/rebase-merge/git-rebase-todo");
    fixture.write(".git/rebase-merge/git-rebase-todo");
    fs::write(&list, "pick 1\nexec make\n x make test\n").unwrap();
    drop(fixture.start());
    fs::write(&list, "exec make\npick 2\n").unwrap();
    assert!(fixture.put_aside().is_empty());
    drop(fixture.start());
    fs::write(&list, "pick 1\nx ./evil\n").unwrap();
    let aside = ".git/rebase-merge/put-aside-git-rebase-todo";
    assert_eq!(
        fixture.put_aside(),
        [pair(".git/rebase-merge/git-rebase-todo", aside)]
    );
}

#[tokio::test]
async fn without_an_answer_an_undecided_file_keeps_its_name_and_is_found_again() {
    let fixture = Fixture::new();
    let background = fixture.start();
    fixture.write("CLAUDE.md");
    background.finish().await;
    assert_eq!(fixture.list_undecided(&EarlierChanges::default()), ["CLAUDE.md"]);
    fixture.write(".envrc");
    // It appeared before this one started, so it is not certainly this one's.
    let earlier = fixture.watch.list_changes(&fixture.folders);
    fixture.start().finish().await;
    let mut changes = fixture.settle(&earlier);
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert!(matches!(changes[0].outcome, SteeringOutcome::Undecided));
    let earlier = fixture.watch.list_changes(&fixture.folders);
    assert!(
        earlier.paths.contains_key(&fixture.path("CLAUDE.md")),
        "the question is open"
    );
    fixture.watch.put_aside(&fixture.folders, &mut changes[0]);
    assert!(fixture.path("put-aside-CLAUDE.md").exists() && fixture.path(".envrc").exists());
    drop(changes);
    fixture.write("CLAUDE.md");
    assert!(fixture.put_aside().is_empty(), "it is new");
}

#[tokio::test]
async fn a_start_that_fails_leaves_no_watch() {
    let fixture = Fixture::new();
    let failed = fixture
        .start()
        .finish_unless_started(Err::<(), _>("refused"))
        .await;
    assert_eq!(failed.unwrap_err(), "refused");
    fixture.write("CLAUDE.md");
    drop(fixture.start());
    assert!(fixture.put_aside().is_empty(), "it appeared while nothing ran");
}

#[test]
fn what_a_command_outside_of_the_sandbox_may_have_made_is_undecided() {
    let fixture = Fixture::new();
    let ended = fixture.watch.start_unconfined();
    drop(ended);
    for (is_parallel, expected) in [(false, Vec::new()), (true, vec!["CLAUDE.md"])] {
        let earlier = fixture.watch.list_changes(&fixture.folders);
        let command = fixture.start();
        if is_parallel {
            drop(fixture.watch.start_unconfined());
        }
        fixture.write("CLAUDE.md");
        drop(command);
        assert_eq!(fixture.list_undecided(&earlier), expected);
        assert_eq!(fixture.path("CLAUDE.md").exists(), is_parallel);
    }
}

#[test]
fn a_tool_that_writes_in_a_new_folder_does_not_make_its_other_files_certain() {
    let fixture = Fixture::new();
    let background = fixture.start();
    fixture.write(".vscode/a");
    let earlier = fixture.watch.list_changes(&fixture.folders);
    fixture.external.write(&fixture.write(".vscode/by_tool"));
    assert_eq!(fixture.list_undecided(&earlier), [".vscode/a"]);
    drop(background);
}

#[test]
fn a_kept_change_does_not_replace_what_the_user_wrote_meanwhile() {
    let fixture = Fixture::new_without_mounts();
    let settings = fixture.write(".vscode/settings.json");
    drop(fixture.start());
    fs::write(&settings, "by the command").unwrap();
    let mut changes = fixture.settle(&NOTHING);
    fs::write(&settings, "by the user").unwrap();
    let replaced = fixture
        .watch
        .keep(&fixture.folders, &mut changes[0])
        .unwrap()
        .unwrap();
    assert_eq!(fs::read_to_string(&settings).unwrap(), "by the command");
    assert_eq!(fs::read_to_string(&replaced).unwrap(), "by the user");
    assert_eq!(fixture.name(&replaced), ".vscode/put-aside-2-settings.json");
}

#[test]
fn beyond_what_is_kept_unchanged_files_stay() {
    let fixture = Fixture::new_without_mounts();
    let large = vec![b'x'; 1 << 20];
    for number in 10..22 {
        fixture.write(&format!(".direnv/{number}"));
        fs::write(fixture.path(&format!(".direnv/{number}")), &large).unwrap();
    }
    for number in 0..2_100 {
        fixture.write(&format!(".idea/many/{number}"));
    }
    drop(fixture.start());
    fixture.write(".direnv/00");
    fs::remove_file(fixture.path(".direnv/10")).unwrap();
    fixture.write(".idea/many/new");
    let expected = [
        pair(".direnv/00", ".direnv/put-aside-00"),
        pair(".direnv/10", "back"),
    ];
    assert_eq!(fixture.put_aside(), expected);
}

#[test]
fn a_folder_that_gains_too_many_files_is_put_aside_as_a_whole() {
    let fixture = Fixture::new_without_mounts();
    fixture.write(".vscode/tasks.json");
    drop(fixture.start());
    for number in 0..2_100 {
        fixture.write(&format!(".vscode/{number}"));
    }
    assert_eq!(fixture.put_aside(), [pair(".vscode", "put-aside-.vscode")]);
    assert!(fixture.path("put-aside-.vscode/tasks.json").exists());
}

#[test]
fn without_mounts_all_submodules_are_compared() {
    let fixture = Fixture::new_without_mounts();
    fixture.write(".git/HEAD");
    for number in 0..101 {
        fixture.write(&format!(".git/modules/m{number}/config"));
    }
    let command = fixture.start();
    assert!(!command.has_closed_submodules());
    drop(command);
    let config = fixture.path(".git/modules/m7/config");
    fs::write(&config, "changed").unwrap();
    let expected = [pair(".git/modules/m7/config", ".git/modules/m7/put-aside-config")];
    assert_eq!(fixture.put_aside(), expected);
    assert_eq!(fs::read_to_string(&config).unwrap(), ".git/modules/m7/config");
}

#[test]
fn a_change_that_was_dropped_before_anybody_was_told_is_found_again() {
    let fixture = Fixture::new_without_mounts();
    fixture.write(".vscode/settings.json");
    drop(fixture.start());
    fixture.write("CLAUDE.md");
    fs::write(fixture.path(".vscode/settings.json"), "by the command").unwrap();
    drop(fixture.settle(&NOTHING));
    assert!(fixture.path("put-aside-CLAUDE.md").exists());
    let find = || fixture.watch.take_unreported(&fixture.folders);
    for _ in 0..2 {
        let names: Vec<_> = find().iter().map(|change| fixture.name(&change.path)).collect();
        assert_eq!(names, [".vscode/settings.json", "CLAUDE.md"]);
    }
    let mut changes = find();
    fs::write(fixture.path(".vscode/settings.json"), "by the user").unwrap();
    for change in &mut changes {
        fixture.watch.keep(&fixture.folders, change).unwrap();
    }
    drop(changes);
    // Kept, but in its place another file was renamed.
    let mut changes = find();
    let texts: Vec<_> = changes
        .iter()
        .map(|change| change.describe(|path| fixture.name(path)))
        .collect();
    assert_eq!(
        texts,
        ["`.vscode/settings.json` (obeyed by VS Code) is now `.vscode/put-aside-2-settings.json`"]
    );
    changes[0].mark_reported();
    drop(changes);
    assert!(find().is_empty());
}

/// The folder of a small disk, for a test that runs itself again there.
#[cfg(target_os = "linux")]
const SMALL_DISK: &str = "AGENTLS_TEST_SMALL_DISK";

/// Runs a test of this module again in a mount namespace with a small disk.
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "a disk needs a mount")]
fn run_on_small_disk(test: &str) {
    let script = "mount -t tmpfs -o size=64k,nr_inodes=20 none \"$1\" && echo mounted >&2 && exec \"$0\" --exact \"$2\"";
    let folder = tempfile::tempdir().unwrap();
    let output = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .arg(folder.path())
        .arg(format!("workspace::steering_watch::tests::{test}"))
        .env(SMALL_DISK, folder.path())
        .output();
    match output {
        Ok(output) if output.stderr.starts_with(b"mounted") => {
            let report = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && report.contains("1 passed"), "{report}");
        }
        other => eprintln!("skipped: no disk can be mounted here: {other:?}"),
    }
}

#[cfg(target_os = "linux")]
#[expect(
    clippy::disallowed_methods,
    reason = "asks where it runs; only a mount refuses root"
)]
#[test]
fn on_a_full_disk_nothing_is_lost_and_the_failure_is_named() {
    let Some(folder) = std::env::var_os(SMALL_DISK) else {
        return run_on_small_disk("on_a_full_disk_nothing_is_lost_and_the_failure_is_named");
    };
    let fixture = Fixture {
        folders: vec![PathBuf::from(folder).canonicalize().unwrap()],
        ..Fixture::new_without_mounts()
    };
    let settings = fixture.write(".vscode/settings.json");
    fs::write(&settings, [b'x'; 16 << 10]).unwrap();
    fixture.write(".idea/a");
    let describe = |changes: Vec<SteeringChange>| -> Vec<String> {
        let texts = changes.iter();
        texts
            .map(|change| change.describe(|path| fixture.name(path)))
            .collect()
    };
    let full = "No space left on device (os error 28)";

    // Without room for the content that is put back.
    drop(fixture.start());
    fs::write(&settings, "by the command").unwrap();
    let filled = fs::write(fixture.path("filler"), [b'x'; 128 << 10]).unwrap_err();
    assert_eq!(filled.kind(), io::ErrorKind::StorageFull);
    let expected = format!(
        "`.vscode/settings.json` (obeyed by VS Code) is now `.vscode/put-aside-settings.json`, and what was there \
         before could not be put back: {full}"
    );
    assert_eq!(describe(fixture.settle(&NOTHING)), [expected]);
    let list = |folder: &str| -> Vec<_> {
        let entries = fs::read_dir(fixture.path(folder)).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    };
    assert_eq!(
        list(".vscode"),
        ["put-aside-settings.json"],
        "no part of it is left"
    );

    // Without room for even a temporary file.
    fs::remove_file(fixture.path("filler")).unwrap();
    drop(fixture.start());
    fs::write(fixture.path(".idea/a"), "by the command").unwrap();
    let files = (0..20).map(|number| fs::write(fixture.path(&format!("filler{number}")), ""));
    assert!(files.into_iter().any(|written| written.is_err()));
    let expected = format!(
        "`.idea/a` (obeyed by JetBrains editors) is now `.idea/put-aside-a`, and what was there before could not be put \
         back: {full}"
    );
    assert_eq!(describe(fixture.settle(&NOTHING)), [expected]);
    assert_eq!(list(".idea"), ["put-aside-a"]);

    // The disk takes no change at all.
    fs::remove_file(fixture.path("filler0")).unwrap();
    drop(fixture.start());
    fixture.write("CLAUDE.md");
    let remounted = std::process::Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(&fixture.folders[0])
        .status();
    assert!(remounted.unwrap().success());
    let expected = "a command in the sandbox changed `CLAUDE.md`, which agents obeys, and putting it aside or back failed: \
                    Read-only file system (os error 30)";
    assert_eq!(describe(fixture.settle(&NOTHING)), [expected]);
    assert!(fixture.path("CLAUDE.md").exists());
}

#[tokio::test]
async fn what_appears_during_a_background_process_is_announced_once_and_still_asked_about() {
    let fixture = Fixture::new();
    let background = fixture.start();
    assert!(fixture.announce().is_empty());
    fixture.write(".mcp.json");
    fixture.external.write(&fixture.write(".envrc"));
    assert_eq!(fixture.announce(), [".mcp.json"]);
    fixture.write("CLAUDE.md");
    background.finish().await;
    fixture.write("AGENTS.md");
    assert_eq!(
        fixture.announce(),
        ["CLAUDE.md"],
        "what is newer comes from others"
    );
    assert!(fixture.announce().is_empty(), "the user knows");
    let undecided = fixture.list_undecided(&EarlierChanges::default());
    assert_eq!(undecided, [".mcp.json", "CLAUDE.md"]);
}

#[tokio::test]
async fn a_file_that_the_user_is_being_asked_about_is_not_announced() {
    let fixture = Fixture::new();
    let background = fixture.start();
    fixture.write("CLAUDE.md");
    let changes = fixture.settle(&EarlierChanges::default());
    assert!(fixture.announce().is_empty());
    drop(changes);
    background.finish().await;
    assert_eq!(fixture.announce(), ["CLAUDE.md"]);
}

#[tokio::test]
async fn reserved_folders_go_with_the_last_process_unless_they_are_in_use() {
    let fixture = Fixture::new();
    fixture.write(".git/HEAD");
    let first = fixture.start_with(true);
    let second = fixture.start_with(true);
    let reserved = [".vscode", ".idea", ".zed", ".cursor", ".claude", ".git/hooks"];
    let exist = || reserved.map(|name| fixture.path(name).exists());
    assert_eq!(exist(), [true; 6]);
    first.finish().await;
    assert_eq!(exist(), [true; 6]);
    fixture.write(".vscode/settings.json");
    fixture.write("CLAUDE.md");
    second.finish().await;
    assert_eq!(exist(), [true, false, false, false, false, false]);
    assert_eq!(
        fixture.announce(),
        ["CLAUDE.md"],
        "the user's editor made the other"
    );
    // The watch goes on, because of the open question.
    drop(fixture.start());
    fixture.write(".idea/x");
    assert_eq!(fixture.announce(), [".idea"], "its name is not reserved any more");
}

#[tokio::test]
async fn names_are_not_reserved_while_a_process_runs_that_has_no_mount_over_them() {
    let fixture = Fixture::new();
    let foreground = fixture.start();
    let background = fixture.start_with(true);
    assert!(!fixture.path(".vscode").exists());
    foreground.finish().await;
    background.finish().await;
    fixture.start_with(true).finish().await;
    assert!(!fixture.path(".vscode").exists());
}

/// What the next agentls sees of a folder.
fn restart(fixture: &Fixture, records: &Path) -> Fixture {
    let next = Fixture {
        _dir: tempfile::tempdir().unwrap(),
        folders: fixture.folders.clone(),
        watch: SteeringWatch::default(),
        external: ExternalWrites::default(),
        options: SnapshotOptions::default(),
    };
    next.watch.keep_records(records.to_owned());
    assert!(next.watch.must_adopt(&next.folders[0]) && !next.watch.must_adopt(&next.folders[0]));
    let external = || next.external.start_watch();
    next.watch.adopt_records(&next.folders, external);
    next
}

#[tokio::test]
async fn what_a_killed_agentls_did_not_see_is_announced_by_the_next_one() {
    let records = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new();
    fixture.watch.keep_records(records.path().to_owned());
    fixture.write("AGENTS.md");
    symlink("conf", fixture.path(".envrc")).unwrap();
    let background = fixture.start_with(true);
    background.store().await;
    for file in [".mcp.json", "src/lib.rs", ".github/workflows/ci.yml"] {
        fixture.write(file);
    }
    fs::remove_file(fixture.path(".envrc")).unwrap();
    symlink("evil", fixture.path(".envrc")).unwrap();
    assert!(
        restart(&fixture, records.path()).announce().is_empty(),
        "it is alive"
    );
    drop(background);
    fixture.watch = SteeringWatch::default();
    let expected = [".envrc", ".github/workflows", ".mcp.json"];
    for _ in 0..2 {
        // The second one is killed too, before the user has answered.
        let next = restart(&fixture, records.path());
        assert_eq!(next.announce(), expected);
        assert!(!fixture.path(".vscode").exists(), "only its name was reserved");
        fixture.write("CLAUDE.md");
    }
    let next = restart(&fixture, records.path());
    let mut changes = next.settle(&EarlierChanges::default());
    assert_eq!(changes.len(), 3, "{changes:?}");
    for change in &mut changes {
        next.watch.put_aside(&next.folders, change);
        change.mark_reported();
    }
    drop(changes);
    assert!(next.announce().is_empty());
    assert_eq!(fs::read_dir(records.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn no_record_stays_of_processes_that_created_nothing() {
    let records = tempfile::tempdir().unwrap();
    let fixture = Fixture::new();
    fixture.watch.keep_records(records.path().to_owned());
    let count = || fs::read_dir(records.path()).unwrap().count();
    let background = fixture.start();
    background.store().await;
    background.store().await;
    assert_eq!(count(), 1);
    background.finish().await;
    assert!(fixture.announce().is_empty());
    assert_eq!(count(), 0);
}
