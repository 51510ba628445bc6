//! Broken settings of the sandbox: nothing runs that they could have restricted.

use std::fs;

use super::World;

#[test]
fn nothing_runs_with_broken_settings_of_the_sandbox() {
    let world = World::new(false);
    let config = world.path("home/.config/agentls/config.toml");
    for (text, named) in [
        ("[sandbox]\nrequired = 'yes'", "sandbox.required"),
        ("[sandbox]\nread_deny = [5]", "sandbox.read_deny"),
        ("[sandbox]\nred_deny = ['x']", "sandbox.red_deny"),
        ("[sandbox]\nnetwork = 'bogus'", "sandbox.network"),
        ("[sandbox]\nrequired = true\nbroken = [", "TOML"),
    ] {
        fs::write(&config, text).unwrap();
        for arguments in [&["run", "--", "touch", "ran"][..], &["test"]] {
            let output = world.agentls("landlock", arguments).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{text}: {errors}");
            assert!(
                errors.contains(named) && errors.contains("agentls config check"),
                "{text}: {errors}"
            );
            assert_eq!(output.stdout, b"");
        }
        assert!(!world.path("ws/ran").exists(), "{text}");
    }
    fs::write(&config, "[sandbox]\nenbled = true\n[agent.default]\nmodle = 'x'").unwrap();
    let output = world
        .agentls("landlock", &["run", "--", "true"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("sandbox.enbled") && !errors.contains("nothing runs"),
        "{errors}"
    );
}
