//! What commands see of the machine's `/tmp`, which their own replaces: what they need, and nothing else.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use super::{ALL, FULL, OPEN, World, is_available, worlds};

/// A folder in the machine's `/tmp` with a program that is started through a link and the first line of a script.
struct Tools {
    folder: tempfile::TempDir,
    /// The interpreter's folder, and a link to it.
    _interpreter: tempfile::TempDir,
    link: std::path::PathBuf,
    /// A file that nothing names, next to them.
    other: tempfile::NamedTempFile,
    _socket: UnixListener,
}

impl Tools {
    fn new() -> Self {
        let create = || {
            let folder = tempfile::tempdir_in("/tmp").unwrap();
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
            folder
        };
        let (folder, interpreter) = (create(), create());
        let link = folder.path().with_extension("link");
        symlink(interpreter.path(), &link).unwrap();
        symlink("/bin/sh", interpreter.path().join("sh")).unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        let program = folder.path().join("bin/tool");
        // What it needs is next to it; the rest is what an attack would try.
        let script = format!(
            "#!{}/sh\ncat \"${{0%/*}}/../data\"; eval \"$1\"\n",
            link.display()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.path().join("data"), "data\n").unwrap();
        let plain = folder.path().join("bin/plain");
        fs::write(&plain, "#!/bin/sh\ncat \"${0%/*}/../data\"\n").unwrap();
        fs::set_permissions(&plain, fs::Permissions::from_mode(0o755)).unwrap();
        let socket = UnixListener::bind(folder.path().join("socket")).unwrap();
        for (path, mode) in [("data", 0o666), ("socket", 0o777), ("bin", 0o777), ("", 0o777)] {
            fs::set_permissions(folder.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        let other = tempfile::NamedTempFile::new_in("/tmp").unwrap();
        fs::set_permissions(other.path(), fs::Permissions::from_mode(0o644)).unwrap();
        Self {
            folder,
            _interpreter: interpreter,
            link,
            other,
            _socket: socket,
        }
    }

    fn program(&self) -> String {
        self.folder.path().join("bin/tool").display().to_string()
    }
}

impl Drop for Tools {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.link);
    }
}

/// Runs the program of the tools with a script, and returns what it printed after its data; `None` if it did not run.
fn run(world: &World, method: &'static str, tools: &Tools, script: &str) -> Option<String> {
    let mut command = match method {
        "none" => {
            let mut plain = std::process::Command::new(tools.program());
            plain.current_dir(world.path("ws"));
            plain
        }
        method => world.agentls(method, &["run", "--", &tools.program()]),
    };
    let output = command.arg(script).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.strip_prefix("data\n").map(str::to_owned)
}

#[test]
fn a_program_in_tmp_runs_through_links_and_first_lines_of_scripts() {
    for world in worlds() {
        let tools = Tools::new();
        for method in ALL.iter().copied().filter(|method| is_available(&world, method)) {
            for attempt in ["first", "second"] {
                let ran = run(&world, method, &tools, "echo $0");
                assert_eq!(ran, Some(format!("{}\n", tools.program())), "{method}, {attempt}");
            }
        }
    }
}

#[test]
fn what_is_shown_of_tmp_is_read_only_and_its_sockets_stay_closed() {
    let folder = |tools: &Tools| tools.folder.path().display().to_string();
    for world in worlds() {
        let tools = Tools::new();
        let connect = format!(
            "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('{}/socket')\" && echo open",
            folder(&tools)
        );
        let writes = [
            format!("echo x >> {}/data && echo open", folder(&tools)),
            format!("echo x > {}/new && echo open", folder(&tools)),
            format!(
                "mv {0}/bin {0}/moved && mv {0}/moved {0}/bin && echo open",
                folder(&tools)
            ),
            format!("echo x > {}/new && echo open", tools.link.display()),
        ];
        for method in ALL.iter().copied().filter(|method| is_available(&world, method)) {
            for script in writes.iter().chain([&connect]) {
                let script = format!("({script}) 2>/dev/null");
                assert_eq!(
                    run(&world, method, &tools, &script),
                    Some(String::new()),
                    "{method}: {script}"
                );
            }
        }
        // Without a sandbox they work, so that they show something.
        for script in writes.iter().chain([&connect]) {
            assert_eq!(
                run(&world, "none", &tools, script).as_deref(),
                Some("open\n"),
                "{script}"
            );
            fs::write(tools.folder.path().join("data"), "data\n").unwrap();
        }
    }
}

#[test]
fn nothing_else_of_tmp_is_shown() {
    for world in worlds() {
        let tools = Tools::new();
        let script = format!("[ -e {} ] && echo open", tools.other.path().display());
        for method in FULL.iter().copied().filter(|method| is_available(&world, method)) {
            assert_eq!(
                run(&world, method, &tools, &script),
                Some(String::new()),
                "{method}"
            );
            // What a command names shows nothing either.
            let program = tools.program();
            let named = world.run(method, &format!("[ -e {program} ] && echo open"));
            assert_eq!(named.stdout, b"", "{method}");
        }
        assert_eq!(world.run("none", &script).stdout, OPEN);
    }
}

#[test]
fn tool_chains_and_folders_of_path_in_tmp_are_shown() {
    let world = World::new(false);
    let tools = Tools::new();
    let folder = tools.folder.path().display().to_string();
    for method in FULL.iter().copied().filter(|method| is_available(&world, method)) {
        let run = |variable: &str, value: &str, script: &str| {
            let mut command = world.agentls(method, &["run", "--", "sh", "-c", script]);
            command.env(variable, value).output().unwrap().stdout
        };
        let path = format!("{folder}/bin:{}", super::search_path().display());
        assert_eq!(run("PATH", &path, "plain"), b"data\n", "{method}");
        let read = format!("cat {folder}/data");
        assert_eq!(run("PYTHONPATH", &folder, &read), b"data\n", "{method}");
        let home = format!("cat {folder}/data; echo x > {folder}/new && echo open");
        assert_eq!(run("HOME", &folder, &home), b"data\n", "{method}");
        assert_eq!(run("UNRELATED", &folder, &read), b"", "{method}");
    }
}

#[test]
fn a_linked_work_tree_in_tmp_finds_its_repository() {
    let world = World::new(false);
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let git = |in_folder: &Path, args: &str| {
        let status = std::process::Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@example.com"])
            .args(args.split(' '))
            .current_dir(in_folder)
            .status();
        assert!(status.unwrap().success(), "{args}");
    };
    let main = folder.path().join("main");
    fs::create_dir(&main).unwrap();
    git(&main, "init -q");
    git(&main, "commit -q --allow-empty -m first");
    git(&main, "worktree add -q ../side");
    for method in FULL.iter().copied().filter(|method| is_available(&world, method)) {
        for mode in ["plan", "autoEdit"] {
            let mut command = world.agentls(
                method,
                &["run", "--mode", mode, "--", "git", "log", "--format=%s"],
            );
            let output = command.current_dir(folder.path().join("side")).output().unwrap();
            assert_eq!(output.stdout, b"first\n", "{method}, {mode}: {output:?}");
        }
    }
}
