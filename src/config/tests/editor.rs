//! Settings and trust that come from an editor, and the spelling of trusted folders.

use super::*;

#[test]
fn editor_options_trust_no_folder_by_path() {
    let workspace = "[agent.default]\nmode = 'autoEdit'\n";
    for value in [
        json!(["/w"]),
        json!("/w"),
        json!("yes"),
        json!(1),
        json!({"a": 1}),
        json!(true),
    ] {
        let options = Some(json!({"trusted": value, "agent": {"default": {"max_iterations": 7}}}));
        for editor in [false, true] {
            let (options, later) = if editor {
                (None, options.clone())
            } else {
                (options.clone(), None)
            };
            let loaded = TestLayers {
                workspace,
                options,
                editor: later,
                ..TestLayers::default()
            }
            .load();
            assert!(!loaded.trusted, "{value}");
            let reported = lines(&loaded);
            let source = if editor {
                "workspace/didChangeConfiguration"
            } else {
                "initializationOptions"
            };
            assert!(
                reported
                    .iter()
                    .any(|line| line.starts_with(source) && line.contains("trusted: ")),
                "{reported:?}"
            );
            assert_eq!(loaded.settings.default_agent().max_steps, 7, "the rest is loaded");
        }
    }
}

#[test]
fn later_editor_settings_override_options() {
    let options = json!({
        "approvals": {"deny": ["bash(rm*)"], "require_approval": ["grep"]},
        "agent": {"default": {"max_iterations": 7, "mode": "plan"}},
    });
    let agent = |editor: Value| {
        let layers = TestLayers {
            options: Some(options.clone()),
            editor: Some(editor),
            ..TestLayers::default()
        };
        let loaded = layers.load();
        assert_eq!(lines(&loaded), [""; 0]);
        let settings = &loaded.settings;
        let agent = settings.default_agent();
        (agent.max_steps, agent.mode, settings.approvals.deny.0.clone())
    };
    let deny = |rules: &[&str]| rules.iter().map(ToString::to_string).collect::<Vec<_>>();
    for (editor, wanted) in [
        (json!({}), (7, Mode::Plan, deny(&["bash(rm*)"]))),
        (
            json!({"agent": {"default": {"max_iterations": 9}}}),
            (9, Mode::Plan, deny(&["bash(rm*)"])),
        ),
        (
            json!({"approvals": {"deny": ["bash"]}, "agent": {"default": {"mode": null}}}),
            (7, Mode::Ask, deny(&["bash(rm*)", "bash"])),
        ),
        (json!({"approvals": {"deny": null}}), (7, Mode::Plan, deny(&[]))),
        (
            json!({"approvals": null, "agent": null}),
            (50, Mode::Ask, deny(&[])),
        ),
    ] {
        assert_eq!(agent(editor.clone()), wanted, "{editor}");
    }
}

#[cfg(unix)]
#[test]
fn trusted_folder_may_be_spelled_with_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    let (root, link) = (base.join("root"), base.join("link"));
    std::fs::create_dir(&root).unwrap();
    std::os::unix::fs::symlink(&root, &link).unwrap();
    let file = base.join("c.toml");
    std::fs::write(&file, format!("trusted = ['{}/']", link.display())).unwrap();
    let env = Env::from_vars([("HOME", base.to_str().unwrap())]);
    let places = ConfigPaths::from_env(&env, Some(&file));
    let source = ConfigSource {
        env,
        places,
        ..ConfigSource::default()
    };
    assert!(source.load_settings(Some(&root), &Trust::default()).trusted);
    assert!(!source.load_settings(Some(&base), &Trust::default()).trusted);
}
