//! Checks the documentation: links resolve, example configurations load, JSON and commands parse.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use agentls::cli::{Arguments, CliCommand};
use agentls::config::{ConfigPaths, ConfigSource, Env, Trust};
use agentls::server::tool_names;
use clap::Parser;

/// A Markdown file, split into prose and code blocks.
struct Page {
    /// Relative to the top of the repository.
    path: PathBuf,
    /// Lines of prose with their line numbers.
    prose: Vec<(usize, String)>,
    blocks: Vec<Block>,
}

/// A fenced code block.
struct Block {
    language: String,
    /// The line number of its first line of text.
    line: usize,
    text: String,
}

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn find_markdown(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find_markdown(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

fn pages() -> Vec<Page> {
    let mut paths: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "protocol.md"]
        .map(|name| top().join(name))
        .into();
    find_markdown(&top().join("docs"), &mut paths);
    for editor in fs::read_dir(top().join("editors")).unwrap() {
        let readme = editor.unwrap().path().join("README.md");
        paths.extend(readme.is_file().then_some(readme));
    }
    paths.sort();
    assert!(paths.len() > 6, "pages are missing: {paths:?}");
    paths.iter().map(|path| read_page(path)).collect()
}

fn read_page(path: &Path) -> Page {
    let mut page = Page {
        path: path.strip_prefix(top()).unwrap().to_path_buf(),
        prose: Vec::new(),
        blocks: Vec::new(),
    };
    let mut fence: Option<(String, usize)> = None;
    for (index, line) in fs::read_to_string(path).unwrap().lines().enumerate() {
        let bare = line.trim_start();
        match &fence {
            Some((mark, _))
                if bare.trim_end().starts_with(mark) && bare.trim_end_matches(['`', '~']).is_empty() =>
            {
                fence = None;
            }
            Some((_, indent)) => {
                let indent = (*indent).min(line.len() - bare.len());
                let block = page.blocks.last_mut().unwrap();
                block.text.push_str(&line[indent..]);
                block.text.push('\n');
            }
            None if bare.starts_with("```") || bare.starts_with("~~~") => {
                let rest = bare.trim_start_matches(['`', '~']);
                fence = Some((
                    bare[..bare.len() - rest.len()].to_owned(),
                    line.len() - bare.len(),
                ));
                page.blocks.push(Block {
                    language: rest.split([' ', ',']).next().unwrap().to_owned(),
                    line: index + 2,
                    text: String::new(),
                });
            }
            None => page.prose.push((index + 1, line.to_owned())),
        }
    }
    assert!(
        fence.is_none(),
        "{}: a code block has no end",
        page.path.display()
    );
    page
}

/// Returns `line` with inline code replaced by blanks, since code contains no links.
fn without_code(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('`') {
        text.push_str(before);
        let ticks = 1 + after.len() - after.trim_start_matches('`').len();
        let mark = "`".repeat(ticks);
        match after[ticks - 1..].split_once(&mark) {
            Some((code, after)) => {
                text.extend(code.chars().map(|_| ' '));
                rest = after;
            }
            None => rest = &after[ticks - 1..],
        }
    }
    text + rest
}

/// Returns the targets of links and pictures.
fn targets(line: &str) -> Vec<String> {
    let line = without_code(line);
    let mut found: Vec<String> = Vec::new();
    for (mark, end) in [("](", ')'), ("src=\"", '"'), ("href=\"", '"')] {
        let links = line.split(mark).skip(1);
        found.extend(links.filter_map(|rest| Some(rest.split_once(end)?.0.to_owned())));
    }
    if let Some((name, target)) = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "))
        && !name.contains(']')
    {
        found.push(target.trim().to_owned());
    }
    found
}

/// Returns the anchors of a page's headings, as GitHub and mdBook generate them.
fn anchors(page: &Page) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (_, line) in &page.prose {
        for mark in ["id=\"", "name=\""] {
            let ids = line.split(mark).skip(1);
            anchors.extend(ids.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
        }
        let text = line.trim_start_matches('#');
        if text.len() == line.len() || !text.starts_with(' ') {
            continue;
        }
        let anchor: String = text
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let count = counts.entry(anchor.clone()).or_default();
        anchors.insert(match *count {
            0 => anchor,
            count => format!("{anchor}-{count}"),
        });
        *count += 1;
    }
    anchors
}

/// Resolves `.` and `..` in `path`; `None` if it leads out of the repository.
fn normalize(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => normal.push(name),
            Component::CurDir => {}
            Component::ParentDir if normal.pop() => {}
            _ => return None,
        }
    }
    Some(normal)
}

#[track_caller]
fn assert_no_problems(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn documentation_links_resolve() {
    let pages = pages();
    let by_path: BTreeMap<&Path, BTreeSet<String>> = pages
        .iter()
        .map(|page| (page.path.as_path(), anchors(page)))
        .collect();
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in &pages {
        for (line, text) in &page.prose {
            for target in targets(text) {
                // A title follows the address: [text](address "title").
                let address = target.split(' ').next().unwrap();
                if address.contains("://") || address.starts_with("mailto:") {
                    continue;
                }
                count += 1;
                let (file, anchor) = address.split_once('#').unwrap_or((address, ""));
                let path = match file {
                    "" => Some(page.path.clone()),
                    file => normalize(&page.path.parent().unwrap().join(file)),
                };
                let at = format!("{}:{line}: {address}", page.path.display());
                let Some(path) = path.filter(|path| top().join(path).exists()) else {
                    wrong.push(format!("{at}: there is no such file"));
                    continue;
                };
                let anchors = by_path.get(path.as_path());
                if !anchor.is_empty() && !anchors.is_some_and(|anchors| anchors.contains(anchor)) {
                    wrong.push(format!("{at}: there is no such heading"));
                }
            }
        }
    }
    // A parser that finds nothing would pass every check.
    assert!(count > 20, "only {count} links were found");
    assert_no_problems(wrong);
}

/// mdBook renders only what its summary lists.
#[test]
fn summary_lists_every_page() {
    let book = top().join("docs");
    let mut paths = Vec::new();
    find_markdown(&book, &mut paths);
    let summary = fs::read_to_string(book.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<String> = summary.lines().flat_map(targets).collect();
    let pages: BTreeSet<String> = paths
        .iter()
        .map(|path| path.strip_prefix(&book).unwrap().to_str().unwrap().to_owned())
        .filter(|path| path != "SUMMARY.md")
        .collect();
    assert_eq!(listed, pages);
}

/// Returns a value for each variable that an example names: as `${NAME}`, or in a key that is for that.
fn variables(text: &str) -> Vec<(String, String)> {
    [
        ("${", '}'),
        ("bearer_token_env = \"", '"'),
        ("_secret_env = \"", '"'),
    ]
    .iter()
    .flat_map(|(start, end)| text.split(start).skip(1).filter_map(|rest| rest.split_once(*end)))
    .map(|(name, _)| (name.to_owned(), "a-value".to_owned()))
    .collect()
}

#[test]
fn example_configurations_load() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in pages() {
        for block in page.blocks.iter().filter(|block| block.language == "toml") {
            count += 1;
            let home = tempfile::tempdir().unwrap();
            let mut vars = variables(&block.text);
            vars.push(("HOME".to_owned(), home.path().to_str().unwrap().to_owned()));
            let env = Env::from_vars(vars);
            let places = ConfigPaths::from_env(&env, None).unwrap();
            fs::create_dir_all(&places.config_dir).unwrap();
            fs::write(&places.config_file, &block.text).unwrap();
            let source = ConfigSource {
                places: Some(places),
                env,
                tools: tool_names(),
                ..ConfigSource::default()
            };
            let loaded = source.load_settings(None, &Trust::default());
            wrong.extend(
                loaded
                    .diagnostics
                    .iter()
                    .map(|problem| format!("{}:{}: {problem}", page.path.display(), block.line)),
            );
        }
    }
    assert!(count > 10, "only {count} configurations were found");
    assert_no_problems(wrong);
}

#[test]
fn example_json_parses() {
    let mut wrong = Vec::new();
    for page in pages() {
        for block in page.blocks.iter().filter(|block| block.language == "json") {
            // A block may show several messages, one per line.
            let values = serde_json::Deserializer::from_str(&block.text).into_iter::<serde_json::Value>();
            if let Some(error) = values.filter_map(Result::err).next() {
                wrong.push(format!("{}:{}: {error}", page.path.display(), block.line));
            }
        }
    }
    assert_no_problems(wrong);
}

/// Splits the first command of a shell line into words. A pipe, redirection or comment ends it; quotes are removed.
fn split_words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(mark), _) if c == mark => quote = None,
            (Some('"') | None, '\\') => word.get_or_insert_default().extend(chars.next()),
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '|' | '<' | '>' | '&' | ';') => break,
            (None, '#') if word.is_none() => break,
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match quote {
        Some(_) => Err("a quote is not closed".to_owned()),
        None => Ok(words),
    }
}

#[test]
fn example_commands_parse() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in pages() {
        for block in page.blocks.iter().filter(|block| block.language == "sh") {
            let text = block.text.replace("\\\n", "  ");
            for line in text.lines().filter(|line| line.starts_with("agentls ")) {
                count += 1;
                let parsed = split_words(line).and_then(|words| match Arguments::try_parse_from(words) {
                    // clap returns help and the version as errors with exit code 0.
                    Err(error) if error.exit_code() != 0 => Err(error.to_string()),
                    _ => Ok(()),
                });
                if let Err(parse_error) = parsed {
                    let first = block.line
                        + block
                            .text
                            .lines()
                            .position(|own| line.starts_with(own.trim_end_matches('\\')))
                            .unwrap_or(0);
                    let parse_error = parse_error.lines().next().unwrap_or_default();
                    wrong.push(format!("{}:{first}: {line}: {parse_error}", page.path.display()));
                }
            }
        }
    }
    assert!(count > 5, "only {count} commands were found");
    assert_no_problems(wrong);
}

/// The entry of the registry of the Agent Client Protocol. Its rules: `FORMAT.md` and `CONTRIBUTING.md` of
/// agentclientprotocol/registry.
#[test]
fn the_entry_of_the_acp_registry_starts_this_version() {
    let folder = top().join("docs/editors/acp-registry");
    let entry: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.join("agent.json")).unwrap()).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(entry["id"], "agentls");
    assert_eq!(entry["name"], "agentls");
    assert_eq!(entry["version"], version);
    assert!(entry["description"].as_str().is_some_and(|text| !text.is_empty()));
    assert_eq!(entry["license"], env!("CARGO_PKG_LICENSE"));
    // The registry refuses `latest`, and a version that differs.
    let package = &entry["distribution"]["npx"];
    assert_eq!(package["package"], format!("agentls@{version}"));
    let arguments = package["args"].as_array().unwrap().iter();
    let words = std::iter::once("agentls").chain(arguments.map(|argument| argument.as_str().unwrap()));
    let parsed = Arguments::try_parse_from(words).unwrap();
    assert!(matches!(parsed.command, Some(CliCommand::Acp { command: None })));
    // An icon of 16 by 16 pixels in the color of the editor.
    assert_eq!(entry["icon"], "./icon.svg");
    let icon = fs::read_to_string(folder.join("icon.svg")).unwrap();
    assert!(icon.contains("width=\"16\" height=\"16\""), "{icon}");
    for attribute in ["fill=\"", "stroke=\""] {
        for color in icon.split(attribute).skip(1) {
            assert!(
                color.starts_with("currentColor\"") || color.starts_with("none\""),
                "{attribute}{color}"
            );
        }
    }
}
