//! Second paths of hidden files, in the real sandbox: mounts and hard links.

use std::fs;
use std::process::{Command, Output};

use super::{FULL, World, is_available, is_root};

/// The home folder, and a part of what is hidden in it, are mounted a second time.
const MOUNTS: &str = r#"mount --bind "$HOME" "$OUT/home" && mount --bind "$HOME/.ssh" "$OUT/part""#;

/// Runs a command in the workspace, after a script that mounts something for it.
pub(super) fn run_with_mounts(world: &World, mounts: &str, command: &Command) -> Output {
    let script = format!(r#"{mounts} && exec "$@""#);
    let unshared = if is_root() { "-m" } else { "-rm" };
    let variables = command.get_envs();
    Command::new("unshare")
        .args([unshared, "--", "bash", "-c", &script, "bash"])
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear()
        .envs(variables.filter_map(|(name, value)| Some((name, value?))))
        .current_dir(world.path("ws"))
        .output()
        .unwrap()
}

#[test]
fn a_hidden_file_has_no_second_path() {
    let world = World::new(false);
    if !FULL.iter().any(|method| is_available(&world, method)) {
        return;
    }
    for folder in ["outside/home", "outside/part", "ws/deep"] {
        fs::create_dir(world.path(folder)).unwrap();
    }
    for (file, link) in [(".npmrc", "ws/linked"), (".ssh/id_ed25519", "ws/deep/key")] {
        fs::hard_link(world.path("home").join(file), world.path(link)).unwrap();
    }
    let script = "for file in $OUT/home/.ssh/id_ed25519 $OUT/home/.npmrc $OUT/part/id_ed25519 linked deep/key; do \
                  grep -q secret $file && echo ${file#$OUT/}; done; cat $OUT/home/.npm/file && echo rest";
    let mut plain = world.agentls("none", &[]);
    let variables: Vec<_> = plain
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    plain = Command::new("bash");
    plain.args(["-c", script]).env_clear().envs(variables);
    let output = run_with_mounts(&world, MOUNTS, &plain);
    let found = "home/.ssh/id_ed25519\nhome/.npmrc\npart/id_ed25519\nlinked\ndeep/key\nrest\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), found, "{output:?}");
    for method in FULL {
        if !is_available(&world, method) {
            continue;
        }
        let command = world.agentls(method, &["run", "--", "bash", "-c", script]);
        let output = run_with_mounts(&world, MOUNTS, &command);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "rest\n",
            "{method}: {output:?}"
        );
    }
}
