//! Properties that hold for every policy, call, and rule.

use proptest::prelude::*;

use super::*;

const COMMANDS: &[&str] = &[
    "git status",
    "git diff",
    "ls -l",
    "cat x",
    "make",
    "make test",
    "rm -rf /",
    "rm x",
    "git push",
    "sudo make",
    "echo $x",
    "$x",
    "cargo build",
    "npm run x",
    "echo 'a b'",
    "A=1 make",
    "ls > out",
    "cat .env",
    "python3 x.py",
    "find . -delete",
    "sh -c 'rm x'",
    "eval x",
    "echo $(make)",
    "f() { make; }",
    "'",
    "curl x",
    "grep 'a*(b)' c",
];

const RULES: &[&str] = &[
    "bash",
    "*",
    "bash(*)",
    "bash(git *)",
    "bash(git status*)",
    "bash(make*)",
    "bash(rm*)",
    "bash(rm -rf*)",
    "bash(sudo *)",
    "bash(ls *)",
    "bash(cat *)",
    "bash(cat .env)",
    "edit_file",
    "edit_file(src/**)",
    "edit_file(/**)",
    "read_file(**)",
    "read_file(.env)",
    "edit_file(**/*.rs)",
    "*(src/**)",
    "mcp:*",
];

const FILES: &[&str] = &[
    "src/a.rs",
    "x",
    ".env",
    "/etc/hosts",
    ".git/config",
    "src/.ssh/k",
    "tests/a/b.rs",
    "a(b),c",
];

fn line() -> impl Strategy<Value = String> {
    let separators = prop::sample::select(&["; ", " && ", " || ", " | ", " & ", "\n"][..]);
    (
        prop::sample::select(COMMANDS),
        prop::collection::vec((separators, prop::sample::select(COMMANDS)), 0..3),
    )
        .prop_map(|(first, more)| {
            more.into_iter()
                .fold(first.to_owned(), |line, (sep, command)| line + sep + command)
        })
}

fn call() -> impl Strategy<Value = (&'static str, Effect)> {
    let file = (any::<bool>(), prop::sample::select(FILES)).prop_map(|(write, file)| {
        if write {
            ("edit_file", on_file(EffectKind::Write, file))
        } else {
            ("read_file", on_file(EffectKind::Read, file))
        }
    });
    prop_oneof![3 => line().prop_map(|line| ("bash", Effect::from_command(line))), 1 => file]
}

fn some_rules() -> impl Strategy<Value = Vec<Rule>> {
    prop::collection::vec(prop::sample::select(RULES), 0..4).prop_map(|texts| rules(&texts))
}

fn policy() -> impl Strategy<Value = Policy> {
    let mode = prop::sample::select(&Mode::ALL[..]);
    let lists = (some_rules(), some_rules(), some_rules(), some_rules());
    (mode, lists, any::<bool>(), any::<Option<bool>>()).prop_map(
        |(mode, (require_approval, allow, deny, grants), tainted, sandboxed_needs_approval)| Policy {
            mode,
            require_approval,
            allow,
            deny,
            invalid_rules: Vec::new(),
            grants: grants.into_iter().map(GrantedRule::from).collect(),
            first_uses: FirstUses::new(),
            foreign_content: if tainted {
                ForeignContent::Elsewhere
            } else {
                ForeignContent::None
            },
            sandboxed_needs_approval,
        },
    )
}

fn freedom(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Deny { .. } => 0,
        Verdict::Ask { .. } => 1,
        Verdict::Allow { .. } => 2,
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 192,
        max_global_rejects: 50_000,
        ..ProptestConfig::default()
    })]

    /// A rule that denies a call on its own denies it in every other policy too.
    #[test]
    fn deny_always_wins(policy in policy(), (tool, effect) in call(), deny in prop::sample::select(RULES)) {
        let alone = Policy { mode: Mode::Full, deny: rules(&[deny]), ..Policy::default() };
        prop_assume!(matches!(judge_tool_call(&alone, tool, &effect), Verdict::Deny { .. }));
        let mut policy = policy;
        policy.deny.push(Rule::parse(deny).unwrap());
        prop_assert_eq!(letter(&judge_tool_call(&policy, tool, &effect)), 'D');
    }

    /// More denials, more questions, or a stricter mode never allow more. More grants never allow less.
    #[test]
    fn strictness_is_monotone(policy in policy(), (tool, effect) in call(), rule in prop::sample::select(RULES)) {
        let before = freedom(&judge_tool_call(&policy, tool, &effect));
        let rule = Rule::parse(rule).unwrap();
        let mut stricter = policy.clone();
        stricter.deny.push(rule.clone());
        prop_assert!(freedom(&judge_tool_call(&stricter, tool, &effect)) <= before);
        let mut stricter = policy.clone();
        stricter.require_approval.push(rule.clone());
        prop_assert!(freedom(&judge_tool_call(&stricter, tool, &effect)) <= before);
        let stricter = Policy { foreign_content: ForeignContent::Elsewhere, ..policy.clone() };
        prop_assert!(freedom(&judge_tool_call(&stricter, tool, &effect)) <= before);
        let mut freer = policy.clone();
        freer.grants.push(rule.clone().into());
        prop_assert!(freedom(&judge_tool_call(&freer, tool, &effect)) >= before);
        let mut freer = policy.clone();
        freer.allow.push(rule);
        prop_assert!(freedom(&judge_tool_call(&freer, tool, &effect)) >= before);
        for pair in Mode::ALL.windows(2) {
            let of = |mode| freedom(&judge_tool_call(&Policy { mode, ..policy.clone() }, tool, &effect));
            prop_assert!(of(pair[0]) <= of(pair[1]));
        }
    }

    /// A compound line is never freer than its least free part.
    #[test]
    fn a_compound_is_no_freer_than_its_parts(
        policy in policy(),
        a in prop::sample::select(COMMANDS),
        b in prop::sample::select(COMMANDS),
        sep in prop::sample::select(&["; ", " && ", " || ", " | ", " & ", "\n"][..]),
    ) {
        let of = |command: &str| freedom(&judge_tool_call(&policy, "bash", &Effect::from_command(command)));
        let whole = of(&format!("{a}{sep}{b}"));
        // An open quote in one part swallows the other.
        prop_assume!(a != "'" && b != "'");
        prop_assert!(whole <= of(a).min(of(b)), "{} {} {}", whole, of(a), of(b));
    }

    /// What "always" offers is enough: once granted, the same call does not ask again.
    #[test]
    fn an_offered_rule_settles_the_question(policy in policy(), (tool, effect) in call()) {
        if let Verdict::Ask { rule: Some(rule), .. } = judge_tool_call(&policy, tool, &effect) {
            let mut policy = policy;
            let offered = Rule::parse_list(&rule).unwrap();
            policy.grants.extend(offered.into_iter().map(GrantedRule::from));
            let verdict = judge_tool_call(&policy, tool, &effect);
            prop_assert!(matches!(verdict, Verdict::Allow { .. }), "{}: {:?}", rule, verdict);
        }
    }

    #[test]
    fn any_text_is_judged(policy in policy(), text in any::<String>()) {
        judge_tool_call(&policy, "bash", &Effect::from_command(text.clone()));
        judge_tool_call(&policy, "edit_file", &on_file(EffectKind::Write, &text));
        judge_tool_call(&policy, "web_fetch", &of_kind(EffectKind::Network, &text));
    }
}
