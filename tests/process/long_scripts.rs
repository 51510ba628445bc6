//! Scripts of any length run, and a long one runs like a short one.

use agentls::workspace::process::{Child, Command, Launcher, Stdin};

use crate::{HELPER, launcher};

/// Returns what a script prints, and its end, after a comment of this many bytes.
async fn run_script(comment: usize, script: &str) -> String {
    let script = format!("{script} #{}", "x".repeat(comment));
    let command = Command::from_script(script)
        .stdin(Stdin::Bytes(b"input\n".to_vec()))
        .merge_stderr();
    describe_end(launcher().spawn(command).await.unwrap()).await
}

async fn describe_end(child: Child) -> String {
    let end = child.collect_output(1 << 20).await;
    format!("{}{:?}", String::from_utf8_lossy(&end.stdout), end.status)
}

#[tokio::test]
async fn a_long_script_runs_like_a_short_one() {
    for script in [
        "cat",
        "read line; echo \"$line\"; cat",
        // No program inherits what the shell reads.
        "ls -l /proc/self/fd | sed 's/.* -> //; /pipe:/d; /memfd:stdin/d; s/[0-9]/N/g'",
        "(exit 3)",
        "kill -TERM $$",
        "echo $#; set -e; false; echo not reached",
        "exec sh -c 'echo replaced'",
        "\necho $LINENO; (echo $LINENO)",
        "echo \"$0 [${BASH_SOURCE[*]}] $#\"; f() { echo \"$FUNCNAME ${BASH_SOURCE[0]}\"; }; f; no-such-program",
        "cat <<'END' | wc -c\nline\nEND\n",
        "sleep 0 & wait; trap 'echo ended' EXIT; exit 7",
    ] {
        let short = run_script(0, script).await;
        for comment in [64 << 10, 300_000, 5 << 20] {
            assert_eq!(run_script(comment, script).await, short, "{script} {comment}");
        }
    }
}

#[tokio::test]
async fn a_long_script_needs_no_bash_and_stays_out_of_the_process_list() {
    let folder = tempfile::tempdir().unwrap();
    for program in ["sh", "tr", "wc"] {
        let from = ["/bin", "/usr/bin"].map(|bin| std::path::Path::new(bin).join(program));
        let from = from.iter().find(|path| path.exists()).unwrap();
        std::os::unix::fs::symlink(from, folder.path().join(program)).unwrap();
    }
    let script = format!(
        "tr '\\0' ' ' < /proc/$$/cmdline | wc -c; cat() {{ wc -c; }}; cat <<'END'\n{}\nEND\n",
        "x".repeat(300_000)
    );
    let command = Command::from_script(script)
        .env("PATH", folder.path())
        .merge_stderr();
    let child = Launcher::with_helper(HELPER, []).spawn(command).await.unwrap();
    let printed = describe_end(child).await;
    let (words, rest) = printed.split_once('\n').unwrap();
    assert!(words.trim().parse::<usize>().unwrap() < 100, "{words}");
    assert_eq!(rest.trim_start(), "300001\nCode(0)");
}
