//! Random plans in the real sandbox, compared with the model: [`SandboxPlan::find_rule`].
//!
//! A command tries to read and write each file of a small tree. Secrets come last, as in the plans of `SandboxScope`.

use std::fs;
use std::path::{Path, PathBuf};

use agentls::domain::{SandboxMethod, SandboxNetwork};
use agentls::sandbox::{PathRule, PrivateTemp, SandboxPlan};
use agentls::workspace::process::{Command, Launcher};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Method, World, is_available, program};

/// Bounds the time to some seconds.
const CASES: u32 = 12;
const NAMES: [&str; 3] = ["a", "b", "c d"];

/// Lists a file in each folder of a tree of three levels, relative to its root.
fn list_files() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::new()];
    let mut level = folders.clone();
    for _ in 0..3 {
        level = level
            .iter()
            .flat_map(|folder| NAMES.map(|name| folder.join(name)))
            .collect();
        folders.extend(level.iter().cloned());
    }
    folders.iter().map(|folder| folder.join("file")).collect()
}

/// Returns rules for files, or the folders around them, by a path relative to the root.
fn rules() -> impl Strategy<Value = Vec<(PathRule, PathBuf)>> {
    let files = list_files();
    let path = (prop::sample::select(files), 0..3_usize)
        .prop_map(|(file, up)| file.ancestors().nth(up).map(Path::to_owned).unwrap_or_default())
        .prop_filter("the root folder has no rule", |path| path.parent().is_some());
    let open = prop::sample::select(vec![
        PathRule::Write,
        PathRule::Cache,
        PathRule::Workspace,
        PathRule::ReadOnly,
    ]);
    let secret = prop::sample::select(vec![PathRule::Hide, PathRule::Blank]);
    let visible = prop::collection::vec((Just(PathRule::Visible), path.clone()), 0..3);
    let open = prop::collection::vec((open, path.clone()), 0..8);
    let secret = prop::collection::vec((secret, path), 0..4);
    (visible, open, secret).prop_map(|(visible, open, secret)| {
        let fits = |(rule, path): &(PathRule, PathBuf)| {
            let is_file = path.ends_with("file");
            match rule {
                PathRule::Cache | PathRule::Workspace | PathRule::HomeWorkspace => !is_file,
                PathRule::Blank => is_file,
                PathRule::Write
                | PathRule::ReadOnly
                | PathRule::Visible
                | PathRule::Reach
                | PathRule::Hide => true,
                // Only for a home folder, before all other rules.
                PathRule::Empty => false,
            }
        };
        visible
            .into_iter()
            .chain(open)
            .chain(secret)
            .filter(fits)
            .collect()
    })
}

/// What a command could do with a file: what it read, and whether it could write.
fn attempt(launcher: &Launcher, plan: &SandboxPlan, root: &Path) -> Vec<(String, bool)> {
    let script = r#"while IFS= read -r file; do
        read=$(cat "$file" 2>/dev/null) || read=failed
        write=false; { : >> "$file"; } 2>/dev/null && write=true
        echo "$read $write"
    done"#;
    let list: Vec<String> = list_files()
        .iter()
        .map(|file| root.join(file).to_str().unwrap().to_owned())
        .collect();
    let input = agentls::workspace::process::Stdin::Bytes((list.join("\n") + "\n").into_bytes());
    let command = Command::from_script(script).stdin(input).sandbox(plan.clone());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let output = runtime.block_on(async {
        let child = launcher
            .spawn(command)
            .await
            .unwrap_or_else(|error| panic!("{error}: {plan:?}"));
        child.collect_output(1 << 16).await
    });
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| {
            let (read, write) = line.split_once(' ').unwrap();
            (read.to_owned(), write == "true")
        })
        .collect()
}

/// Returns whether an outcome is one that the model allows.
fn is_expected(plan: &SandboxPlan, file: &Path, (read, can_write): &(String, bool)) -> bool {
    let is_below_hidden = plan
        .rules
        .iter()
        .any(|(rule, path)| *rule == PathRule::Hide && file.starts_with(path));
    match plan.find_rule(file) {
        Some(PathRule::Write | PathRule::Workspace | PathRule::HomeWorkspace) => read == "text" && *can_write,
        Some(PathRule::Cache) => read == "text" && *can_write == (plan.method == SandboxMethod::Namespaces),
        // The command's own `/tmp` has nothing there, but the command may create a file of that name.
        None | Some(PathRule::Hide | PathRule::Blank) if file.starts_with("/tmp") => read != "text",
        Some(PathRule::ReadOnly | PathRule::Visible | PathRule::Reach) | None => read == "text" && !can_write,
        Some(PathRule::Hide | PathRule::Empty) => read == "failed" && !can_write,
        Some(PathRule::Blank) => (read.is_empty() || is_below_hidden && read == "failed") && !can_write,
    }
}

#[test]
fn random_plans_hold_what_their_rules_say() {
    let world = World::new(false);
    let methods: Vec<(Method, SandboxMethod)> = [
        ("namespaces", SandboxMethod::Namespaces),
        ("bubblewrap", SandboxMethod::Bubblewrap),
    ]
    .into_iter()
    .filter(|(name, _)| is_available(&world, name))
    .collect();
    let replaced = tempfile::tempdir_in("/tmp").unwrap();
    let roots = [world.root.path(), replaced.path()].map(|root| fs::canonicalize(root).unwrap().join("tree"));
    for (root, file) in roots
        .iter()
        .flat_map(|root| list_files().into_iter().map(move |file| (root, file)))
    {
        let file = root.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "text").unwrap();
    }
    let temp = PrivateTemp::create_in(&std::env::temp_dir()).unwrap();
    let layers = tempfile::tempdir().unwrap();
    let launcher = Launcher::with_helper(program(), []);
    let config = Config {
        cases: CASES,
        // A case that failed is printed in full; there is no file of the library's source to keep it in.
        failure_persistence: None,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&rules(), |rules| {
        for ((name, method), root) in methods
            .iter()
            .flat_map(|method| roots.iter().map(move |root| (method, root)))
        {
            let plan = SandboxPlan {
                method: *method,
                network: SandboxNetwork::Offline,
                temp: temp.path().to_owned(),
                cache_layers: Some(layers.path().to_owned()),
                rules: rules
                    .iter()
                    .map(|(rule, path)| (*rule, root.join(path)))
                    .collect(),
            };
            let outcomes = attempt(&launcher, &plan, root);
            prop_assert_eq!(outcomes.len(), list_files().len());
            for (file, outcome) in list_files().iter().zip(&outcomes) {
                let file = root.join(file);
                prop_assert!(
                    is_expected(&plan, &file, outcome),
                    "{} with {}: {:?}, but the rule is {:?}",
                    file.display(),
                    name,
                    outcome,
                    plan.find_rule(&file)
                );
            }
        }
        Ok(())
    });
    outcome.unwrap();
}
