//! A repository full of attacks does nothing and leaks nothing before trust. After trust, it does only what the trust
//! question listed (R-SEC).
//!
//! `attacks` and `git_attacks` are the table, one row per attack; `planter` writes the files and watches the canaries;
//! `walk` does what a user does in the repository.
#![expect(
    clippy::disallowed_methods,
    reason = "git makes the repository, and the user runs commands in a terminal"
)]

mod attacks;
mod git_attacks;
mod planter;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{World, is_sample};
use attacks::{Attack, Trust, attacks};
use planter::Canaries;
use walk::Walk;

/// Returns the names of the attacks that `is_meant` accepts.
fn names(is_meant: impl Fn(&Attack) -> bool) -> BTreeSet<String> {
    let all = attacks().into_iter();
    all.filter(|attack| is_meant(attack))
        .map(|attack| attack.name.to_owned())
        .collect()
}

#[test]
fn hostile_repository_does_nothing_before_trust() {
    assert_nothing_happens_before_trust(false);
}

#[test]
fn hostile_repository_does_nothing_before_trust_in_the_sandbox() {
    assert_nothing_happens_before_trust(true);
}

fn assert_nothing_happens_before_trust(in_sandbox: bool) {
    let world = World::new();
    let canaries = Canaries::plant(&world, &attacks());
    let mut walk = Walk::start(&world, &canaries, in_sandbox, |_| true);
    let mut effects = BTreeMap::new();
    for (step, run) in walk::STEPS {
        run(&mut walk);
        effects.insert(step.to_owned(), walk.take_effects());
    }
    // The sandbox only adds to the guards that the other test tries everywhere.
    let every = if in_sandbox && is_sample() { 16 } else { 1 };
    for folder in canaries.repositories.take().into_iter().step_by(every) {
        walk.open_repository(&folder);
        effects.insert(folder, walk.take_effects());
    }
    effects.insert("the end".to_owned(), walk.finish());
    effects.retain(|_, effects| !effects.is_empty());
    assert_eq!(effects, BTreeMap::new());
    assert_traps_fire(&world, &canaries);
}

#[test]
fn hostile_repository_does_after_trust_only_what_was_listed() {
    let world = World::new();
    let canaries = Canaries::plant(&world, &attacks());
    let harmless = names(|attack| attack.trust == Trust::Nothing);
    let mut walk = Walk::start(&world, &canaries, false, |name| harmless.contains(name));
    let described: Value = walk
        .client
        .call("agent/describeTrust", json!({"folder": world.workspace()}));
    let listed: BTreeSet<(&str, &str)> = described["activates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (item["kind"].as_str().unwrap(), item["name"].as_str().unwrap()))
        .collect();
    for attack in attacks() {
        if let Trust::Activates(kind, name) | Trust::Lists(kind, name) = attack.trust {
            assert!(listed.contains(&(kind, name)), "{}: {described}", attack.name);
        }
    }
    for (attack, command) in &*canaries.traps.borrow() {
        if *attack == "hook-padded" {
            let mut items = described["activates"].as_array().unwrap().iter();
            let item = items.find(|item| item["name"] == *attack).unwrap();
            let shown = item["command"].as_str().unwrap();
            assert!(shown.ends_with(command) && shown.contains("<U+202E>"), "{shown}");
        }
    }
    for folder in canaries.repositories.take() {
        // A bare repository is never used, trusted or not.
        let is_bare = !world.workspace().join(&folder).join(".git").exists();
        let from = format!("from {folder}/");
        assert!(
            is_bare || described.to_string().contains(&from),
            "{folder}: {described}"
        );
    }
    assert_eq!(walk.take_effects(), BTreeSet::new(), "the trust question");
    let trust = json!({"folder": world.workspace(), "trusted": true});
    let _: Value = walk.client.call("agent/setTrust", trust);
    let mut effects = BTreeSet::new();
    for (_, run) in walk::STEPS {
        run(&mut walk);
        effects.extend(walk.take_effects());
    }
    effects.extend(walk.finish());
    // Every other effect was not listed, and every missing one shows a canary that does not work.
    let unused = names(|attack| matches!(attack.trust, Trust::Lists(..)));
    let activated = names(|attack| matches!(attack.trust, Trust::Activates(..)));
    let observed: BTreeSet<String> = effects.difference(&unused).cloned().collect();
    assert_eq!(observed, activated);
}

#[test]
fn hostile_repository_with_no_plain_files_where_settings_are_read() {
    for attack in attacks::NO_PLAIN_FILES {
        let world = World::new();
        let canaries = Canaries::plant(&world, &[attack]);
        let mut walk = Walk::start(&world, &canaries, false, |_| true);
        let (_, terminal) = walk::STEPS[walk::STEPS.len() - 1];
        walk.open_repository(".");
        terminal(&mut walk);
        assert_eq!(walk.take_effects(), BTreeSet::new(), "{}", attack.name);
        let folder = json!({"folder": world.workspace()});
        let described: Value = walk.client.call("agent/describeTrust", folder);
        let trust = json!({"folder": world.workspace(), "trusted": true});
        let _: Value = walk.client.call("agent/setTrust", trust);
        walk.open_repository(".");
        assert_eq!(walk.finish(), BTreeSet::new(), "{}: {described}", attack.name);
    }
}

#[test]
fn hostile_repository_with_thousands_of_protected_names() {
    for attack in attacks::FLOODS {
        let world = World::new();
        let canaries = Canaries::plant(&world, &[attack]);
        let mut walk = Walk::start(&world, &canaries, true, |_| true);
        walk.run_program();
        assert_eq!(walk.finish(), BTreeSet::new(), "{}", attack.name);
        assert_traps_fire(&world, &canaries);
    }
}

/// Asserts that each trap would have fired if anything had run it.
fn assert_traps_fire(world: &World, canaries: &Canaries) {
    for (attack, command) in &*canaries.traps.borrow() {
        let status = Command::new("sh").args(["-c", command]).status().unwrap();
        assert!(status.success(), "{attack}: {command}");
        let fired = canaries.take_fired(world);
        assert!(fired.contains(*attack), "{attack}: {command}");
    }
}
