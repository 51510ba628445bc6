//! The frames that the end-to-end tests of `agentls acp` have recorded, against the protocol's schema.
//!
//! `AGENTLS_ACP_FRAMES` names the folder; see `tests/e2e/acp/client.rs`. `tests/run.sh` sets it if all tests have run.

use acp_client_tests::FrameChecker;

#[test]
fn recorded_frames_are_valid() {
    let Some(folder) = std::env::var_os("AGENTLS_ACP_FRAMES") else {
        return eprintln!("NOT TESTED: recorded frames, because AGENTLS_ACP_FRAMES names no folder");
    };
    let mut checked = 0;
    let mut files = 0;
    let mut checker = FrameChecker::default();
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        checker.forget_requests();
        files += 1;
        for line in text.lines() {
            match line.split_at(1) {
                (">", sent) => checker.note_sent(sent),
                (_, received) => {
                    checker.check_received(received);
                    checked += 1;
                }
            }
        }
    }
    let missing = checker.list_unchecked();
    assert!(
        missing.is_empty(),
        "{checked} frames of {files} connections, but none of {missing:?}"
    );
    println!("{checked} frames of {files} connections are valid");
}
