//! Pathspecs with which git leaves out the files whose names look like secrets, in every commit.
//!
//! They cover at least what [`super::is_secret_like`] names, and a little more: a pathspec cannot say everything that it
//! says. Most are a star and the end of a path, which git compares without a search.

use std::sync::LazyLock;

use super::{DATA_EXTENSIONS, EXTENSIONS, FOLDERS, FOLDERS_IN, IN_FOLDER, NAMES, SHARED_ENDINGS, STEMS};
use crate::base::glob::GlobPattern;

/// Names with more than an end. Each `*` matches within one name.
const NAME_PATTERNS: &[&str] = &[
    ".*_history",
    "appsettings.*.json",
    "*firebase-adminsdk*.json",
    "*service*account*.json",
    "*account*service*.json",
    // What ends with a data extension, but not with `json`.
    "*credentials.[eiy][amn]*",
    "*credentials.t[ox]*",
    "*secret.[eiy][amn]*",
    "*secret.t[ox]*",
    "*secrets.[eiy][amn]*",
    "*secrets.t[ox]*",
    "*service[-_]account.[eiy][amn]*",
    "*service[-_]account.t[ox]*",
    // Several names in one.
    ".dockerc*",
    ".my*.cnf",
    ".vault[-_]*",
    "*.keychain*",
    "id_[der]*[s1][a9k]",
    "client_secret*.json",
    "*credentials*.json",
    // Files of Emacs.
    "#*",
    ".#*",
];

/// Secret names with which ordinary names end.
const WHOLE_NAMES: &[&str] = &["environ", "kcore", "shadow"];

/// Ends of all copies that a few editors and people make, of secrets or not.
const COPY_ENDS: &[&str] = &["~", "#", "-", ".", ".copy", ".save", ".swo", ".swp"];

/// Beginnings of copies of secrets whose names have an extension, or need none: one pattern finds all further copies.
#[rustfmt::skip]
const COPIED_FILES: &[&str] = &[
    "*.env", "*.p[18efp]", "*.k[de][by]", "*.jks", "*.agekey", "*.tf[sv]", "*[-_]key.json", "_netrc",
    "auth.[jt][os]", "appsettings.", "config.json", "cookies.s", "*firebase-adm", "fish_h", "gradle.p",
    "hosts.yml", "login data", "logins.j", "rclone.conf", "settings*.xml",
];
/// How copies of these end: `.bak`, `.backup`, `.old`, `.orig`, `.tmp`, and numbers.
const COPIED_FILE_END: &str = "*.*[0-9dgkp]";

/// Beginnings of copies of secrets with which ordinary names begin, too: hidden files, and names of one word.
#[rustfmt::skip]
const COPIED_NAMES: &[&str] = &[
    ".", "*account*service", "*credential", "environ", "id_[der]", "k[ceu]", "*secret", "*service*account",
    "*shadow", "*token",
];
/// How copies of these end: the same, but not `.md` or `.svg`.
const COPIED_NAME_ENDS: &[&str] = &["*[bkort][ailmu][dgkp]", "*.*[0-9]"];

/// Ends of names that are secret only before `.json`.
const JSON_STEMS: &[&str] = &[".tfvars", "-key", "_key"];

/// Returns the pathspecs.
pub fn git_exclusions() -> &'static [String] {
    static EXCLUSIONS: LazyLock<Vec<String>> = LazyLock::new(|| {
        let ends = list_path_ends().into_iter();
        let ends = ends.map(|end| format!(":(top,exclude,icase)*{end}"));
        let names = list_name_patterns().into_iter();
        let names = names.map(|name| format!(":(top,exclude,icase,glob)**/{name}"));
        ends.chain(names).collect()
    });
    &EXCLUSIONS
}

/// Returns whether the pathspecs leave out a path, given from the top of a work tree.
pub fn is_left_out_by_git(path: &str) -> bool {
    static ENDS: LazyLock<Vec<String>> = LazyLock::new(list_path_ends);
    static PATTERNS: LazyLock<Vec<GlobPattern>> = LazyLock::new(|| {
        let names = list_name_patterns().into_iter();
        names
            .filter_map(|name| GlobPattern::for_names(&name).ok())
            .collect()
    });
    let path = path.to_lowercase();
    let folder_in = |end: &&String| end.ends_with("/*");
    let is_below = |end: &str| path.contains(&end[..end.len() - 1]);
    if ENDS.iter().any(|end| path.ends_with(end.as_str()))
        || ENDS.iter().filter(folder_in).any(|end| is_below(end))
    {
        return true;
    }
    let name = path.rsplit('/').next().unwrap_or_default();
    // Most names fit no pattern, which their ends show.
    let may_match = name.starts_with(['.', '#'])
        || name.ends_with(|c: char| c.is_ascii_digit() || "dgkp".contains(c))
        || name.ends_with(".json")
        || ["account", "credentials", "secret"]
            .iter()
            .any(|word| name.contains(word))
        || name.starts_with("id_")
        || name.contains(".keychain")
        || WHOLE_NAMES.contains(&name);
    may_match && PATTERNS.iter().any(|pattern| pattern.is_match(name))
}

fn list_name_patterns() -> Vec<String> {
    let names = NAME_PATTERNS.iter().chain(WHOLE_NAMES).copied();
    let mut patterns: Vec<String> = names.map(str::to_owned).collect();
    patterns.extend(list_env_variants());
    patterns.extend(COPIED_FILES.iter().map(|name| format!("{name}{COPIED_FILE_END}")));
    for end in COPIED_NAME_ENDS {
        patterns.extend(COPIED_NAMES.iter().map(|name| format!("{name}{end}")));
    }
    patterns
}

/// Returns the ends of paths that are secret, whatever comes before them.
fn list_path_ends() -> Vec<String> {
    let names = NAMES.iter().filter(|name| !WHOLE_NAMES.contains(name));
    let mut ends: Vec<String> = names.map(|name| (*name).to_owned()).collect();
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
    // The patterns for names cover some. And git tracks nothing in `.git`.
    let names = NAME_PATTERNS.iter().map(|name| GlobPattern::for_names(name));
    let names: Vec<GlobPattern> = names.filter_map(Result::ok).collect();
    ends.retain(|end| end != ".git/config" && !names.iter().any(|name| name.is_match(end)));
    ends.extend(COPY_ENDS.iter().map(|end| (*end).to_owned()));
    // What ends alike needs one pathspec.
    let all = ends.clone();
    ends.retain(|end| {
        !all.iter()
            .any(|other| other != end && end.ends_with(other.as_str()))
    });
    ends.sort();
    ends.dedup();
    ends
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

    use super::super::{COPIES, is_secret_like};
    use super::*;

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
            "notes.bak",
            "README.md.orig",
            "src/main.rs.old",
            "src/main.rs.tmp",
            "vendor/a-3.6.0",
            "vendor/a.so.1.2",
            "src/myenviron",
            "css/drop-shadow",
            "docs/credentials.md",
            "img/secret.svg",
            ".travis.yml",
            "src/service_account.js",
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
            1 => "\\.[0-9]{0,12}",
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
            prop_assert_eq!(is_left_out_by_git(&path), is_excluded(&path), "{}", path);
        }

        #[test]
        fn it_is_known_what_git_leaves_out(path in "([a-c]{1,2}/)?[#.]?(a|id_e|secret|x.key|account)?[a-z0-9.~#]{0,6}[a-z0-9~#]") {
            prop_assert_eq!(is_left_out_by_git(&path), is_excluded(&path), "{}", path);
        }
    }
}
