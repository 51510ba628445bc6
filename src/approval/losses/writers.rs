//! Programs that write the file that an option or a word names, or unpack files. Adds what they overwrite.

use super::{Arguments, LossReader};
use crate::approval::programs::base_name;
use crate::approval::shell::ShellWord;
use crate::base::word_list::WordList;
use crate::domain::{LossReach, LossTarget};

/// Programs whose `-o` is not followed by a file that they write.
const WITHOUT_OUTPUT: WordList = WordList(
    "unzip rsync grep egrep fgrep zgrep rg ag ack ls ps find fd set shopt ssh scp sftp sshfs mount test [ [[ bash sh zsh dash ksh \
    pgrep lsof ip od nm kubectl systemctl journalctl useradd usermod",
);

/// Programs that take `-o` after other letters.
const PROGRAMS_WITH_CLUSTERS: WordList = WordList("curl wget sort");

/// Programs with `-oFILE` in one word.
const COMPILERS: WordList = WordList("gcc cc g++ c++ clang clang++ ld as rustc");

/// Programs that change each file they name: editors with a script, and programs that make a file system.
const EDITING_PROGRAMS: WordList =
    WordList("ed ex vi vim nvim sponge wipe srm wipefs blkdiscard mkswap dos2unix unix2dos");

/// Programs that put a compressed file in place of another, and its ending.
const COMPRESSORS: &[(WordList, &str)] = &[
    (WordList("gzip gunzip pigz unpigz"), ".gz"),
    (WordList("bzip2 bunzip2 pbzip2"), ".bz2"),
    (WordList("xz unxz"), ".xz"),
    (WordList("lzma unlzma"), ".lzma"),
    (WordList("zstd unzstd"), ".zst"),
];

impl LossReader {
    /// Reads what a program writes by its own options and words.
    pub(super) fn read_writer(&mut self, name: &str, words: &[ShellWord], arguments: &Arguments<'_>) {
        match name {
            "curl" if arguments.has(&['O'], &["--remote-name", "--remote-name-all"]) => {
                for url in &arguments.operands {
                    let file = url.as_literal().map_or("", base_name);
                    let file = file.split(['?', '#']).next().unwrap_or_default();
                    self.add_files(&ShellWord::from_plain_text(file), &LossReach::Content);
                }
            }
            "uniq" => {
                for word in arguments.operands.iter().skip(1) {
                    self.add_files(word, &LossReach::Content);
                }
            }
            "awk" | "gawk" if words.iter().any(|word| word.as_literal() == Some("inplace")) => {
                self.add_operands(arguments, &LossReach::Entry);
            }
            "tar" | "gtar" | "bsdtar" => self.read_tar(words, arguments),
            "unzip" if arguments.has(&['o'], &[]) => self.add_unpacked(words, &["-d"]),
            "7z" | "7za" | "7zr" if matches!(arguments.operand(0), Some("x" | "e")) => {
                self.add_unpacked(words, &["-o"]);
            }
            "zip" if arguments.has(&['m'], &["--move"]) => {
                self.add_operands(arguments, &LossReach::Tree { named: None });
            }
            _ if EDITING_PROGRAMS.contains(name) || name.starts_with("mkfs") => {
                self.add_operands(arguments, &LossReach::Content);
            }
            _ => {}
        }
        // Otherwise they leave a file that is there, and its content is in the new file.
        let ending = COMPRESSORS.iter().find(|(names, _)| names.contains(name));
        if let Some((_, ending)) = ending.filter(|_| arguments.has(&['f'], &["--force"])) {
            for word in arguments.operands.iter().filter_map(|word| word.as_literal()) {
                let made = word
                    .strip_suffix(ending)
                    .map_or_else(|| format!("{word}{ending}"), str::to_owned);
                self.add_files(&ShellWord::from_plain_text(made), &LossReach::Content);
            }
        }
    }

    /// Adds the files that options such as `-o FILE` of a program name. Behind a wrapper, a later word may be the program.
    pub(super) fn read_outputs(&mut self, words: &[ShellWord], is_wrapped: bool) {
        let mut name = "";
        for (at, word) in words.iter().enumerate() {
            let program = word.as_literal().filter(|text| !text.contains("://"));
            if (at == 0 || is_wrapped) && program.is_some_and(|text| WITHOUT_OUTPUT.contains(base_name(text)))
            {
                return;
            }
            name = match program.map(base_name) {
                Some(program) if PROGRAMS_WITH_CLUSTERS.contains(program) || COMPILERS.contains(program) => {
                    program
                }
                _ => name,
            };
            let Some(text) = word.as_literal().filter(|text| text.starts_with('-')) else {
                continue;
            };
            let (option, value) = text
                .split_once('=')
                .map_or((text, None), |(option, value)| (option, Some(value)));
            let is_long = matches!(
                option,
                "--output" | "--out" | "-out" | "--output-document" | "--output-file"
            );
            // `-o`, with some programs also after other letters: `-sSLo FILE`, `-sSLoFILE`.
            let cluster = text.strip_prefix('-').filter(|text| !text.starts_with('-'));
            let attached = match name {
                "wget" => cluster.and_then(|cluster| Some(cluster.split_once(['o', 'O'])?.1)),
                _ if PROGRAMS_WITH_CLUSTERS.contains(name) => {
                    cluster.and_then(|cluster| Some(cluster.split_once('o')?.1))
                }
                _ if COMPILERS.contains(name) => text.strip_prefix("-o"),
                _ => (text == "-o").then_some(""),
            };
            let file = match (value, attached) {
                (Some(value), _) if is_long => Some(ShellWord::from_plain_text(value)),
                (None, _) if is_long => words.get(at + 1).cloned(),
                (_, Some("")) => words.get(at + 1).cloned(),
                (_, Some(attached)) => Some(ShellWord::from_plain_text(attached)),
                _ => None,
            };
            if let Some(file) = file {
                self.add_files(&file, &LossReach::Content);
            }
        }
    }

    fn read_tar(&mut self, words: &[ShellWord], arguments: &Arguments<'_>) {
        // The first letters need no dash.
        let first = words.first().and_then(ShellWord::as_literal).unwrap_or_default();
        let letters = if first.starts_with('-') {
            &arguments.letters
        } else {
            first
        };
        if letters.contains('x') || arguments.has(&[], &["--extract", "--get"]) {
            return self.add_unpacked(words, &["-C", "--directory"]);
        }
        if letters.contains('c') || arguments.has(&[], &["--create"]) {
            let named = arguments
                .long
                .iter()
                .find_map(|option| option.strip_prefix("--file="));
            let after = words.iter().position(|word| {
                let text = word.as_literal().unwrap_or_default();
                text == "--file"
                    || text.ends_with('f')
                        && (text == first || !text.starts_with("--") && text.starts_with('-'))
            });
            let file = named.map(ShellWord::from_plain_text);
            let file = file.or_else(|| words.get(after? + 1).cloned());
            if let Some(file) = file {
                self.add_files(&file, &LossReach::Content);
            }
        }
        if arguments.has(&[], &["--remove-files"]) {
            self.add_operands(arguments, &LossReach::Tree { named: None });
        }
    }

    /// Adds the folder into which an archive is unpacked, as one of these options names it, or the current one.
    fn add_unpacked(&mut self, words: &[ShellWord], options: &[&str]) {
        let mut places = Vec::new();
        for (at, word) in words.iter().enumerate() {
            let text = word.as_literal().unwrap_or_default();
            for option in options {
                match text.strip_prefix(option) {
                    Some("") => places.extend(words.get(at + 1).cloned()),
                    Some(value) => {
                        let value = value.strip_prefix('=').unwrap_or(value);
                        places.push(ShellWord::from_plain_text(value));
                    }
                    None => {}
                }
            }
        }
        if places.is_empty() {
            places.push(ShellWord::from_plain_text("."));
        }
        for place in places {
            self.add(match place.as_literal() {
                Some(place) => LossTarget::Unpacked {
                    place: place.to_owned(),
                },
                None => LossTarget::AnyFile {
                    named: None,
                    is_inner: false,
                },
            });
        }
    }
}
