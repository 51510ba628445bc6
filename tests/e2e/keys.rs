//! Keys stay with the server (R-SEC, I15): commands can neither inherit nor read them, and no text carries one to a model.

use serde_json::json;

use crate::harness::{Options, World};
use crate::mock_llm::Reply;

/// What a command printed, as the model sees it.
fn output_of(world: &World, options: Options, command: impl Fn(u32) -> String) -> String {
    let client = world.start_with(options);
    let session = client.session_with(json!({"mode": "full"}));
    let command = command(client.pid());
    world
        .mock()
        .push(Reply::tool("bash", json!({"command": command})));
    client.ask(&session, "run it");
    world.seen(1).body.to_string()
}

#[test]
fn no_command_reads_the_servers_environment_or_memory() {
    let world = World::new();
    let options = Options {
        ordinary_user: true,
        ..Options::default()
    };
    let seen = output_of(&world, options, |server| {
        let owner = std::os::unix::fs::MetadataExt::uid(
            &std::fs::metadata(format!("/proc/{server}/environ")).unwrap(),
        );
        assert_eq!(owner, 0, "the kernel hides the server from its own user");
        format!(
            "for f in /proc/{server}/environ /proc/{server}/mem /proc/{server}/auxv /proc/$PPID/environ /proc/$PPID/mem; do \
             if head -c 1 $f >/dev/null 2>&1; then echo o''pened $f; fi; done; \
             head -c 1 /proc/$$/environ >/dev/null && echo own environment; ls /proc/self/fd >/dev/null && echo own files; id -u"
        )
    });
    assert!(!seen.contains("opened"), "{seen}");
    assert!(seen.contains("own environment\\nown files\\n"), "{seen}");
    assert!(
        !seen.contains("own files\\n0\\n"),
        "the command is an ordinary user's: {seen}"
    );
}

#[test]
fn no_command_inherits_variables_that_look_like_credentials() {
    let world = World::new();
    world.configure(crate::harness::Config {
        tables: "[tool.bash]\npass_env = ['NPM_TOKEN']\n\
                 [hook.h]\non = 'stop'\ncommand = 'env > hook.txt'\n"
            .to_owned(),
        ..crate::harness::Config::default()
    });
    let secret = world.secrets()[2].clone();
    let env = [
        ("GITHUB_TOKEN", "g"),
        ("AWS_SECRET_ACCESS_KEY", "a"),
        ("AWS_ACCESS_KEY_ID", "i"),
        ("DATABASE_URL", "postgres://u:pw@h/db"),
        ("HARMLESS_COPY", secret.as_str()),
        ("NPM_TOKEN", "n"),
        ("SSH_AUTH_SOCK", "/run/ssh"),
        ("TOKENIZERS_PARALLELISM", "false"),
    ];
    let options = Options {
        env: env
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        ..Options::default()
    };
    let seen = output_of(&world, options, |_| {
        "env > command.txt; env | cut -d= -f1".to_owned()
    });
    for name in ["NPM_TOKEN", "SSH_AUTH_SOCK", "TOKENIZERS_PARALLELISM"] {
        assert!(seen.contains(name), "{name}: {seen}");
    }
    for file in ["command.txt", "hook.txt"] {
        let got = world.read(file).unwrap_or_else(|| panic!("{file}"));
        for (name, _) in &env[..5] {
            assert!(!got.contains(name), "{name} in {file}: {got}");
        }
        assert!(
            !got.contains("E2E_SECRET_KEY") && got.contains("NPM_TOKEN=n"),
            "{got}"
        );
    }
}
