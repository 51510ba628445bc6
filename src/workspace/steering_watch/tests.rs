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
        self.watch.start_command(self.folders.clone(), &self.options, || {
            self.external.start_watch()
        })
    }

    fn settle(&self, earlier: Option<&BTreeSet<PathBuf>>) -> Vec<SteeringChange> {
        self.watch.settle(&self.folders, earlier, true, |_| false)
    }

    /// Returns the names of what is put aside, before and after, as all of one command.
    fn put_aside(&self) -> Vec<(String, String)> {
        let name = |path: &Path| path.strip_prefix(&self.folders[0]).unwrap().display().to_string();
        let changes = self.settle(Some(&BTreeSet::new()));
        let pairs = changes.iter().map(|change| match &change.outcome {
            SteeringOutcome::Aside(aside) => (name(&change.path), name(aside)),
            SteeringOutcome::PutBack => (name(&change.path), "back".to_owned()),
            other => panic!("{other:?}"),
        });
        pairs.collect()
    }
}

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
    let changes = fixture.settle(Some(&BTreeSet::new()));
    fixture.watch.keep(&fixture.folders, &changes[0]).unwrap();
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
    let earlier = fixture.watch.list_changed_paths(&fixture.folders);
    drop(fixture.start());
    fixture.write("CLAUDE.md");
    let mut changes = fixture.settle(Some(&earlier));
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
    changes[0].put_aside();
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
    let changes = fixture.settle(None);
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
    let changes = fixture.settle(Some(&BTreeSet::new()));
    assert!(outside.path().exists());
    fixture.write(".vscode");
    let error = fixture.watch.keep(&fixture.folders, &changes[0]).unwrap_err();
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
    let changes = fixture.settle(Some(&BTreeSet::new()));
    assert!(fixture.path(".vscode").is_symlink());
    fixture.watch.keep(&fixture.folders, &changes[0]).unwrap();
    assert!(fixture.path(".vscode/new.json").exists() && !fixture.path(".vscode").is_symlink());
    assert!(fs::symlink_metadata(fixture.path("put-aside-.vscode")).is_err());
}

#[test]
fn without_mounts_contents_are_put_back() {
    let fixture = Fixture {
        options: SnapshotOptions {
            keeps_contents: true,
            named: Vec::new(),
        },
        ..Fixture::new()
    };
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
