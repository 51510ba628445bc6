//! Pathspecs with which git leaves out the files whose names look like secrets, in every commit.
//!
//! They cover at least what [`super::is_secret_like`] names, and a little more: a pathspec cannot say everything that it
//! says. Most are a star and the end of a path, which git compares without a search.

use std::sync::LazyLock;

use super::{
    COPIES, DATA_EXTENSIONS, EXTENSIONS, FOLDERS, FOLDERS_IN, IN_FOLDER, NAMES, SHARED_ENDINGS, STEMS,
};

/// Names with more than an end. Each `*` matches within one name.
const NAME_PATTERNS: &[&str] = &[
    ".*_history",
    "appsettings.*.json",
    "*firebase-adminsdk*.json",
    "*service*account*.json",
    "*account*service*.json",
    "client_secret*.json",
    "*credentials*.json",
    // Files of Emacs, and numbered copies of names with an extension.
    "#*",
    ".#*",
    "*.*.*[0-9]",
];

/// Ends of names that are secret only before `.json`.
const JSON_STEMS: &[&str] = &[".tfvars", "-key", "_key"];

/// Returns the pathspecs.
pub fn git_exclusions() -> &'static [String] {
    static EXCLUSIONS: LazyLock<Vec<String>> = LazyLock::new(|| {
        let ends = list_path_ends().into_iter();
        let ends = ends.map(|end| format!(":(top,exclude,icase)*{end}"));
        let names = NAME_PATTERNS.iter().map(|name| (*name).to_owned());
        let names = names.chain(list_env_variants());
        let names = names.map(|name| format!(":(top,exclude,icase,glob)**/{name}"));
        ends.chain(names).collect()
    });
    &EXCLUSIONS
}

/// Returns the ends of paths that are secret, whatever comes before them.
fn list_path_ends() -> Vec<String> {
    let mut ends: Vec<String> = NAMES
        .iter()
        .chain(COPIES)
        .map(|name| (*name).to_owned())
        .collect();
    ends.push("#".to_owned());
    ends.extend(EXTENSIONS.iter().map(|extension| format!(".{extension}")));
    ends.extend(JSON_STEMS.iter().map(|stem| format!("{stem}.json")));
    for stem in STEMS {
        ends.extend(
            DATA_EXTENSIONS
                .iter()
                .map(|extension| format!("{stem}.{extension}")),
        );
    }
    for folder in FOLDERS {
        ends.extend([(*folder).to_owned(), format!("{folder}/*")]);
    }
    ends.extend(
        FOLDERS_IN
            .iter()
            .map(|(parent, folder)| format!("{parent}/{folder}/*")),
    );
    ends.extend(IN_FOLDER.iter().map(|(folder, name)| format!("{folder}/{name}")));
    // Copies with a number, of names without an extension.
    let without_extension = |end: &&String| {
        !end.rsplit('/')
            .next()
            .is_some_and(|name| name.contains(['.', '*']))
    };
    let numbered: Vec<String> = ends
        .iter()
        .filter(without_extension)
        .map(|end| format!("{end}.*[0-9]"))
        .collect();
    // What ends alike needs one pathspec.
    let all = ends.clone();
    ends.retain(|end| {
        !all.iter()
            .any(|other| other != end && end.ends_with(other.as_str()))
    });
    ends.sort();
    ends.dedup();
    ends.into_iter().chain(numbered).collect()
}

/// Returns patterns for the variants of `.env`, without those that are meant to be shared, such as `.env.example`.
///
/// A pathspec has no "but not". So for each way to differ from all shared endings, from the last character on, there is
/// a pattern: `.env*[!et]`, `.env*[!l]e`, and so on.
fn list_env_variants() -> Vec<String> {
    let endings: Vec<String> = SHARED_ENDINGS.iter().map(|ending| format!(".{ending}")).collect();
    let mut same: Vec<&str> = vec![""];
    same.extend(
        endings
            .iter()
            .flat_map(|ending| (1..ending.len()).map(move |at| &ending[at..])),
    );
    same.sort_unstable();
    same.dedup();
    let pattern = |end: &str| {
        let before = endings
            .iter()
            .filter_map(|ending| ending.strip_suffix(end)?.chars().next_back());
        let mut before: Vec<char> = before.collect();
        before.sort_unstable();
        before.dedup();
        format!(".env*[!{}]{end}", String::from_iter(before))
    };
    same.into_iter().map(pattern).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::is_secret_like;
    use super::*;
    use crate::base::glob::GlobPattern;

    /// Matches as git does. Its `*` crosses folders, except with the word `glob`.
    fn is_excluded(path: &str) -> bool {
        static PATTERNS: LazyLock<Vec<GlobPattern>> = LazyLock::new(|| {
            let compiled = git_exclusions().iter().map(|exclusion| {
                let (words, pattern) = exclusion.strip_prefix(":(").unwrap().split_once(')').unwrap();
                let compile = if words.contains("glob") {
                    GlobPattern::for_paths
                } else {
                    GlobPattern::for_names
                };
                compile(pattern).unwrap()
            });
            compiled.collect()
        });
        let path = path.to_lowercase();
        PATTERNS.iter().any(|pattern| pattern.is_match(&path))
    }

    #[test]
    fn shared_and_ordinary_files_are_not_excluded() {
        for path in [
            ".env.example",
            "a/.env.local.template",
            ".env.sample",
            "src/env.rs",
            "src/credentials.rs",
            "src/credentials/mod.rs",
            "src/services/account/package.json",
            "id_rsa.pub",
            "man/git.1",
            "CHANGELOG.1",
            "db/migration_history",
            "Cargo.lock",
            "src/process.env.ts",
        ] {
            assert!(!is_excluded(path), "{path}");
        }
        let bytes: usize = git_exclusions().iter().map(String::len).sum();
        assert!(bytes < 8_000, "{bytes} bytes in each command");
    }

    /// Returns names like those of secrets.
    fn arb_path() -> impl Strategy<Value = String> {
        let pick = |from: &'static [&'static str]| prop::sample::select(from);
        let name = prop_oneof![
            pick(NAMES).prop_map(str::to_owned),
            pick(FOLDERS).prop_map(str::to_owned),
            (pick(STEMS), pick(DATA_EXTENSIONS)).prop_map(|(stem, end)| format!("{stem}.{end}")),
            ("[a-z.]{0,3}", pick(EXTENSIONS)).prop_map(|(stem, end)| format!("{stem}.{end}")),
            ("[a-z._]{0,4}", pick(SHARED_ENDINGS)).prop_map(|(stem, end)| format!(".env.{stem}{end}")),
            "\\.env\\.[a-z]{0,9}",
            "\\.[a-z]{1,3}_history",
            "(appsettings\\.[a-z]*|x[-_]key|a-firebase-adminsdk|my_?service-?account|client_secretx|xcredentialsx|a\\.tfvars)\\.json",
            pick(&[
                "a/gh/hosts.yml",
                ".kube/x",
                ".config/borg/x/y",
                "huggingface/token",
                ".ssh/a/b"
            ])
            .prop_map(str::to_owned),
        ];
        let copy = prop_oneof![
            3 => Just(String::new()),
            1 => pick(COPIES).prop_map(str::to_owned),
            1 => "\\.[0-9]{1,12}",
        ];
        ("(a/|A b/)?", "(|#|\\.#)", name, copy.clone(), copy, "#?").prop_map(
            |(folder, mark, name, copy, further, end)| format!("{folder}{mark}{name}{copy}{further}{end}"),
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn every_name_of_a_secret_is_excluded(path in arb_path(), upper in any::<bool>()) {
            let path = if upper { path.to_uppercase() } else { path };
            prop_assert!(!is_secret_like(&path) || is_excluded(&path), "{path}");
        }
    }
}
