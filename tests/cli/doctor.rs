//! `agentls doctor`, and spellings of commands that people know from other programs.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use serde_json::Value;

use crate::{CommandResult, World, hello};

impl World {
    fn doctor(&self, args: &[&str], env: &[(&str, &str)]) -> CommandResult {
        let mut command = self.command(&[&["doctor", "--offline"], args].concat());
        CommandResult::of(&command.envs(env.iter().copied()).output().unwrap())
    }
}

#[test]
fn doctor_reports_success_only_if_checks_pass() {
    let world = World::with(hello());
    world
        .doctor(&[], &[])
        .assert_exit_code(0)
        .assert_stdout("✓ bash")
        .assert_stdout("✓ data")
        .assert_stdout("Everything works.");
    // Doctor removed the files and folders of its checks; only the server's log remains.
    assert!(!world.path("home/.local/share").exists());
    let state = fs::read_dir(world.path("home/.local/state/agentls")).unwrap();
    let names: Vec<_> = state.map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names, ["agentls.log"]);
    world
        .doctor(&[], &[("XDG_DATA_HOME", "/proc/nowhere")])
        .assert_exit_code(1)
        .assert_stdout("✗ data")
        .assert_stdout("cannot be written");
    let file = world.path("work/file");
    fs::write(&file, "").unwrap();
    world
        .doctor(&[], &[("XDG_DATA_HOME", file.to_str().unwrap())])
        .assert_exit_code(1)
        .assert_stdout("✗ data");
    world
        .doctor(&[], &[("XDG_STATE_HOME", file.to_str().unwrap())])
        .assert_exit_code(0)
        .assert_stdout("! state")
        .assert_stdout("see the ! lines");
    // A program in the workspace never counts as bash or git.
    fs::create_dir_all(world.path("work/bin")).unwrap();
    fs::write(world.path("work/bin/bash"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(world.path("work/bin/bash"), PermissionsExt::from_mode(0o755)).unwrap();
    let path = world.path("work/bin");
    world
        .doctor(&[], &[("PATH", path.to_str().unwrap())])
        .assert_exit_code(1)
        .assert_stdout("✗ bash")
        .assert_stdout("! git")
        .assert_stdout("1 problem");
}

#[test]
fn doctor_reports_a_required_sandbox_that_does_not_work() {
    let world = World::new();
    // The world forces the method `none`.
    world.doctor(&[], &[]).assert_stdout("· sandbox");
    world.configure("[sandbox]\nrequired = true\n");
    world
        .doctor(&[], &[])
        .assert_exit_code(1)
        .assert_stdout("✗ sandbox")
        .assert_stdout("commands are refused");
}

#[test]
fn doctor_reports_what_commands_may_do_in_each_mode() {
    let world = World::new();
    world.configure(
        "[sandbox]\nnetwork = \"proxy\"\nallow_hosts = [\"a.example\"]\nwrite = [\"/data\"]\nread_deny = [\"/keys\"]\n\
         read = \"allowlist\"\nread_allow = [\"/library\"]\n\
         [hook.notify]\non = \"stop\"\ncommand = \"true\"\nsandbox = \"off\"\n",
    );
    let doctor = world.doctor(&[], &[("AGENTLS_SANDBOX_METHOD", "namespaces")]);
    if !doctor.out.contains("✓ sandbox") {
        eprintln!("skipped: user namespaces do not work here");
        return;
    }
    let words: Vec<&str> = doctor.out.split_whitespace().collect();
    let text = words.join(" ");
    for part in [
        "in plan, which runs only commands that read, a command writes its temporary folder; reads all but keys and tokens, /keys, \
         and of the home folder only tool chains, caches and git's settings, /library; network through a proxy",
        "in ask and autoEdit, a command writes the workspace, its temporary folder, caches of build tools, /data;",
        "a proxy to a.example, which asks about other hosts",
        "in full, commands are not confined",
        "in the mode full, your own without `sandbox` are not confined; never confined: notify",
        "write names /data, which does not exist",
        "read_allow names /library, which does not exist",
        "read_deny names /keys, which does not exist",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("sandbox caches"), "{text}");
    let impossible = [
        ("AGENTLS_SANDBOX_METHOD", "namespaces"),
        ("XDG_DATA_HOME", "/proc/none"),
    ];
    world.doctor(&[], &impossible).assert_stdout("! sandbox caches");
    world.configure("[sandbox]\nnetwork = true\n");
    let method = [("AGENTLS_SANDBOX_METHOD", "namespaces")];
    world
        .doctor(&[], &method)
        .assert_stdout("full, network open (namespaces)");
    if fs::metadata(world.path("work")).unwrap().uid() == 0 {
        assert!(!doctor.out.contains("another user"), "{}", doctor.out);
        chown(world.path("work"), Some(65_534), Some(65_534)).unwrap();
        let doctor = world.doctor(&[], &method);
        doctor
            .assert_stdout("! sandbox")
            .assert_stdout("another user owns this folder");
    }
}

#[test]
fn doctor_reports_which_provider_uses_each_key() {
    let world = World::new();
    let groq = world.doctor(&[], &[("GROQ_API_KEY", "gsk-canary-1")]);
    groq.assert_stdout("GROQ_API_KEY is set, but does not select a provider")
        .assert_stdout("--provider groq");
    assert!(!groq.out.contains("no key is in the environment"), "{}", groq.out);
    let both = world.doctor(
        &[],
        &[
            ("ANTHROPIC_API_KEY", "sk-canary-1"),
            ("OPENAI_API_KEY", "sk-canary-2"),
        ],
    );
    both.assert_exit_code(0)
        .assert_stdout("OPENAI_API_KEY is set, but prompts go to anthropic");
    assert!(
        !both.out.contains("ANTHROPIC_API_KEY is set, but"),
        "{}",
        both.out
    );
    world
        .doctor(&[], &[("ANTHROPIC_API_KEY", "")])
        .assert_stdout("set, but empty: ANTHROPIC_API_KEY");
    world.configure("[provider.anthropic]\napi_key = \"sk-canary-other\"\nmodel = \"m\"\n");
    let other = world.doctor(&[], &[("ANTHROPIC_API_KEY", "sk-canary-1")]);
    other.assert_stdout("ANTHROPIC_API_KEY is set, but anthropic has another key");
    for done in [groq, both, other] {
        assert!(!done.out.contains("canary"), "{}", done.out);
    }
}

#[test]
fn doctor_says_what_is_missing_for_a_first_prompt() {
    let world = World::new();
    world.configure(
        "[provider.work]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\n[agent.default]\nprovider = \"work\"\n",
    );
    world
        .doctor(&[], &[])
        .assert_exit_code(1)
        .assert_stdout("✗ model          no model is set for work")
        .assert_stdout("set [provider.work] model, or name one with --model");
    world.doctor(&["--model", "m"], &[]).assert_exit_code(0);
    world
        .doctor(&["--provider", "wrok"], &[])
        .assert_exit_code(1)
        .assert_stdout("the provider `wrok` is not configured; did you mean `work`?");
}

#[test]
fn doctor_prints_a_json_report() {
    let world = World::with(hello());
    let report = |done: &CommandResult| serde_json::from_str::<Value>(&done.out).unwrap();
    let good = world.doctor(&["--json"], &[]);
    let good = report(good.assert_exit_code(0));
    assert_eq!((&good["ok"], &good["problems"]), (&Value::Bool(true), &0.into()));
    assert_eq!(good["warnings"], 0, "{good}");
    let file = world.path("work/file");
    fs::write(&file, "").unwrap();
    let warned = world.doctor(&["--json"], &[("XDG_STATE_HOME", file.to_str().unwrap())]);
    let warned = report(warned.assert_exit_code(0));
    assert_eq!(
        (&warned["ok"], &warned["warnings"]),
        (&Value::Bool(true), &1.into())
    );
    let broken = world.doctor(&["--json"], &[("XDG_DATA_HOME", "/proc/nowhere")]);
    let broken = report(broken.assert_exit_code(1));
    assert_eq!(
        (&broken["ok"], &broken["problems"]),
        (&Value::Bool(false), &1.into())
    );
    let checks = broken["checks"].as_array().unwrap();
    let data = checks.iter().find(|check| check["name"] == "data").unwrap();
    assert_eq!(data["state"], "fail");
    assert!(data["message"].is_string() && data["hint"].is_string(), "{data}");
    for name in [
        "program",
        "bash",
        "git",
        "configuration",
        "keys",
        "provider",
        "server",
        "store",
        "data",
        "log",
    ] {
        assert!(checks.iter().any(|check| check["name"] == name), "no {name}");
    }
}

#[test]
fn a_command_of_another_program_gets_a_hint() {
    let world = World::new();
    for (args, hint) in [
        (&["init"][..], "agentls login"),
        (&["update"], "what installed it"),
        (&["config", "show"], "agentls config check"),
        (&["config", "edit"], "agentls config check"),
        (&["auth"], "agentls login"),
        (&["chat", "fix it"], "agentls run \"fix it\""),
        (
            &["--log", "nosuch", "doctor"],
            "off, error, warn, info, debug, trace",
        ),
    ] {
        let done = world.run(args);
        assert!(matches!(done.code, Some(1 | 2)), "{args:?}: {}", done.err);
        done.assert_stderr(hint);
    }
    world
        .run(&["--log", "info,agentls::provider=debug", "docs"])
        .assert_exit_code(0);
}

#[test]
fn config_check_prints_json() {
    let world = World::with(hello());
    let report = |world: &World, code: i32| -> Value {
        let done = world.run(&["config", "check", "--json"]);
        serde_json::from_str(&done.assert_exit_code(code).out).unwrap()
    };
    let fine = report(&world, 0);
    assert_eq!(
        (&fine["ok"], fine["problems"].as_array().unwrap().len()),
        (&Value::Bool(true), 0)
    );
    assert_eq!(fine["files"].as_array().unwrap().len(), 1);
    world.configure("[agent.default]\nmode = \"fast\"\n");
    let broken = report(&world, 1);
    let problem = &broken["problems"][0];
    assert_eq!(
        (&broken["ok"], &problem["severity"]),
        (&Value::Bool(false), &"error".into())
    );
    assert_eq!(
        (&problem["key"], &problem["line"]),
        (&"agent.default.mode".into(), &2.into())
    );
}

#[test]
fn common_spellings_of_other_programs_work() {
    let world = World::with(hello());
    world
        .run(&["help"])
        .assert_exit_code(0)
        .assert_stdout("chat")
        .assert_stdout("models");
    world
        .run(&["help", "run"])
        .assert_exit_code(0)
        .assert_stdout("Exit codes");
    world
        .run(&["models", "--offline"])
        .assert_exit_code(0)
        .assert_stdout("● mine/m");
    let models = world.run(&["models", "--json"]);
    let models: Value = serde_json::from_str(&models.assert_exit_code(0).out).unwrap();
    assert_eq!(models["models"][0]["model"], "mine/m");
    World::new()
        .run(&["models", "--offline"])
        .assert_exit_code(1)
        .assert_stdout("agentls doctor");
    world
        .run(&["-c", "run", "hi"])
        .assert_exit_code(2)
        .assert_stderr("--continue");
    world.run(&["run", "the older question"]).assert_exit_code(0);
    let sessions = world.run(&["sessions", "--json"]);
    let sessions: Value = serde_json::from_str(&sessions.out).unwrap();
    let id = sessions[0]["sessionId"].as_str().unwrap();
    let (beginning, _) = id.split_at(id.len() - 1);
    world.run(&["run", "the newer question"]).assert_exit_code(0);
    for (args, expected) in [
        (&["-c"][..], "the newer question"),
        (&["resume"], "the newer question"),
        (&["resume", beginning], "the older question"),
        // Loading the older session did not change it, so the newer one still counts as the last used.
        (&["resume"], "the newer question"),
        (&["chat", "--session", beginning], "the older question"),
    ] {
        let mut chat = world.terminal(args, &[], 80);
        chat.wait_for_text(expected);
        chat.quit();
    }
    world
        .run(&["resume"])
        .assert_exit_code(1)
        .assert_stderr("chat needs a terminal");
}
