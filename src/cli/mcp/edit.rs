//! Adds and removes the table of an MCP server in the text of a config file; all else stays as it is.
//!
//! It works on lines, and then checks with the parser that nothing else has changed. A file that it cannot change this
//! way is left to the user.

use std::fs;
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use toml::{Table, Value};

use crate::base::random;
use crate::base::web_address::hide_secrets;
use crate::cli::args::McpAddArguments;

/// Builds the table of a server.
///
/// # Errors
/// The name or an option is unusable.
pub(super) fn build_table(arguments: &McpAddArguments) -> Result<Table, String> {
    let name = &arguments.name;
    let is_usable = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > 32 || !name.chars().all(is_usable) || name.contains("__") {
        return Err("a name has at most 32 letters, digits, `-` and single `_`".to_owned());
    }
    let mut table = Table::new();
    if let Some((program, rest)) = arguments.command.split_first() {
        table.insert("command".to_owned(), program.as_str().into());
        if !rest.is_empty() {
            let rest: Vec<Value> = rest.iter().map(|word| word.as_str().into()).collect();
            table.insert("args".to_owned(), rest.into());
        }
    }
    if let Some(url) = &arguments.url {
        let is_usable = url::Url::parse(url)
            .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some());
        if !is_usable {
            return Err(format!(
                "{:?} is not an address such as https://example.com/mcp",
                hide_secrets(url)
            ));
        }
        table.insert("url".to_owned(), url.as_str().into());
    }
    for (key, values, separator) in [("env", &arguments.env, '='), ("headers", &arguments.header, ':')] {
        let mut pairs = Table::new();
        for stated in values {
            // The text may be a secret, so it is not repeated.
            let (name, value) = stated
                .split_once(separator)
                .ok_or_else(|| format!("a value of {key} has no `{separator}`"))?;
            pairs.insert(name.trim().to_owned(), value.trim_start().into());
        }
        if !pairs.is_empty() {
            table.insert(key.to_owned(), pairs.into());
        }
    }
    if let Some(variable) = &arguments.bearer_token_env {
        table.insert("bearer_token_env".to_owned(), variable.as_str().into());
    }
    Ok(table)
}

/// Changes a file at once or not at all. Creates it if necessary, readable by its owner alone.
///
/// # Errors
/// The change is not possible, or the file cannot be read or written.
pub(super) fn change_file(
    path: &Path,
    change: impl FnOnce(&str) -> Result<String, String>,
) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    // Config files are often links into another folder; the link stays.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = target.parent().unwrap_or(Path::new("."));
    let _only_writer = lock_file(folder, &target.with_extension("toml.lock")).map_err(failed)?;
    let (before, mode) = match fs::read_to_string(&target) {
        Ok(text) => (text, fs::metadata(&target).map_err(failed)?.permissions().mode()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (String::new(), 0o600),
        Err(error) => return Err(failed(error)),
    };
    let after = change(&before).map_err(|problem| format!("{}: {problem}", path.display()))?;
    let new = target.with_extension(format!("{}.new", random::random_token(8)));
    let write = || {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(after.as_bytes())?;
        file.set_permissions(fs::Permissions::from_mode(mode & 0o7777))?;
        file.sync_all()?;
        fs::rename(&new, &target)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&new);
        failed(error)
    })
}

/// Waits until no other process changes the file to which the lock belongs. The lock ends with the returned file.
fn lock_file(folder: &Path, lock: &Path) -> io::Result<fs::File> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut options = fs::OpenOptions::new();
    let file = options
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(lock)?;
    file.lock()?;
    Ok(file)
}

/// Appends the table of a server to the text of a config file.
///
/// # Errors
/// There is a server of this name, or the file has no place for another one.
pub(super) fn add_server(text: &str, name: &str, table: &Table) -> Result<String, String> {
    let mut expected = parse(text)?;
    if find_server(&expected, name).is_some() {
        return Err(format!("there is a server {name:?} already; remove it first"));
    }
    let ending = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut after = text.to_owned();
    if !after.is_empty() && !after.ends_with('\n') {
        after.push_str(ending);
    }
    if !after.is_empty() {
        after.push_str(ending);
    }
    after.push_str(&format!("[mcp.{name}]{ending}"));
    let mut entries: Vec<_> = table.iter().collect();
    // A table is sorted by name, but readers look for the command first.
    entries.sort_by_key(|(key, _)| *key != "command");
    for (key, value) in entries {
        after.push_str(&format!("{key} = {value}{ending}"));
    }
    let servers = expected.entry("mcp").or_insert_with(|| Table::new().into());
    if let Value::Table(servers) = servers {
        servers.insert(name.to_owned(), table.clone().into());
    }
    check(&after, &expected, name)?;
    Ok(after)
}

/// Removes the tables of a server from the text of a config file, with the comments right above them.
///
/// # Errors
/// The file does not define such a server, or defines it in a form that this cannot edit.
pub(super) fn remove_server(text: &str, name: &str) -> Result<String, String> {
    let mut expected = parse(text)?;
    if find_server(&expected, name).is_none() {
        return Err(format!("there is no [mcp.{name}]"));
    }
    if let Some(Value::Table(servers)) = expected.get_mut("mcp") {
        servers.remove(name);
    }
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let removed = find_lines(&lines, name);
    let kept = lines.iter().enumerate();
    let kept = kept.filter(|(index, _)| !removed.iter().any(|range| range.contains(index)));
    let after: String = kept.map(|(_, line)| *line).collect();
    check(&after, &expected, name)?;
    Ok(after)
}

fn parse(text: &str) -> Result<Table, String> {
    text.parse::<Table>().map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.unwrap_or_default().matches('\n').count() + 1;
        format!("line {line} is not valid TOML: {}", error.message())
    })
}

fn find_server<'a>(table: &'a Table, name: &str) -> Option<&'a Value> {
    table.get("mcp")?.get(name)
}

/// Checks that the text means what is expected.
fn check(text: &str, expected: &Table, name: &str) -> Result<(), String> {
    let without_empty = |mut table: Table| {
        if table
            .get("mcp")
            .and_then(Value::as_table)
            .is_some_and(Table::is_empty)
        {
            table.remove("mcp");
        }
        table
    };
    let found = text.parse::<Table>().ok().map(without_empty);
    if found == Some(without_empty(expected.clone())) {
        return Ok(());
    }
    Err(format!(
        "the file states its servers in an unusual way; edit [mcp.{name}] by hand"
    ))
}

/// Returns the lines that belong to a server.
fn find_lines(lines: &[&str], name: &str) -> Vec<Range<usize>> {
    let server = ["mcp", name];
    let (mut found, mut header) = (Vec::new(), Vec::new());
    let mut index = 0;
    while index < lines.len() {
        let path = read_path(lines[index]);
        let (is_header, path) = match path {
            Some((true, path)) => (true, path),
            Some((false, path)) => (false, [header.clone(), path].concat()),
            None => (false, Vec::new()),
        };
        if is_header {
            header.clone_from(&path);
        }
        if !path.starts_with(&server.map(str::to_owned)) {
            index += 1;
            continue;
        }
        let end = if is_header {
            find_end(lines, index)
        } else {
            index + 1
        };
        found.push(if is_header {
            with_surroundings(lines, index..end)
        } else {
            index..end
        });
        index = end;
    }
    found
}

/// Returns the path that a line states alone, and whether it is the header of a table.
fn read_path(line: &str) -> Option<(bool, Vec<String>)> {
    let line = line.trim();
    let is_header = line.starts_with('[');
    let mut table: Table = line.parse().ok()?;
    let mut path = Vec::new();
    loop {
        let (key, value) = table.into_iter().next()?;
        path.push(key);
        table = match value {
            Value::Table(inner) if !inner.is_empty() => inner,
            Value::Array(items) if is_header => match items.into_iter().next() {
                Some(Value::Table(inner)) if !inner.is_empty() => inner,
                _ => return Some((is_header, path)),
            },
            _ => return Some((is_header, path)),
        };
    }
}

/// Returns where the table at a header ends: after its last line that is neither empty nor a comment.
fn find_end(lines: &[&str], header: usize) -> usize {
    let next = (header + 1..lines.len()).find(|index| matches!(read_path(lines[*index]), Some((true, _))));
    let last = (header + 1..next.unwrap_or(lines.len()))
        .rev()
        .find(|index| !is_comment(lines[*index]) && !lines[*index].trim().is_empty());
    last.unwrap_or(header) + 1
}

/// Adds the comment right above a table, unless it starts the file, and the empty line below it.
fn with_surroundings(lines: &[&str], table: Range<usize>) -> Range<usize> {
    let comments = lines[..table.start]
        .iter()
        .rev()
        .take_while(|line| is_comment(line))
        .count();
    let start = match table.start - comments {
        0 => table.start,
        start => start,
    };
    let is_followed = lines.get(table.end).is_some_and(|line| line.trim().is_empty());
    start..table.end + usize::from(is_followed)
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# Mine.\nmodel = \"m\" # fast\n\n# The tickets.\n[mcp.tickets]\nurl = \"https://h/mcp\"\n\n\
        [mcp.tickets.headers]\nA = \"[mcp.files]\"\n\n# Notes.\n[mcp.files]\ncommand = \"x\"\nargs = [\n  \"a\", # one\n]\n\n\
        # The end.\n[provider.mine]\nkind = \"openai\"\n";

    #[test]
    fn a_server_is_removed_and_all_else_stays() {
        let expected = "# Mine.\nmodel = \"m\" # fast\n\n# Notes.\n[mcp.files]\ncommand = \"x\"\nargs = [\n  \"a\", # one\n]\n\n\
            # The end.\n[provider.mine]\nkind = \"openai\"\n";
        assert_eq!(remove_server(FILE, "tickets").unwrap(), expected);
        let expected = "# Mine.\nmodel = \"m\" # fast\n\n# The end.\n[provider.mine]\nkind = \"openai\"\n";
        let both = remove_server(FILE, "tickets").unwrap();
        assert_eq!(remove_server(&both, "files").unwrap(), expected);
        assert!(remove_server(FILE, "none").is_err());
    }

    #[test]
    fn other_ways_to_write_a_server_are_removed_or_refused() {
        for text in [
            "mcp.a.command = \"x\"\nmcp.b.command = \"y\"\n",
            "[mcp]\na = { command = \"x\" }\nb = { command = \"y\" }\n",
            "[mcp]\na.command = \"x\"\n[mcp.b]\ncommand = \"y\"\n",
            "[mcp.\"a\"] # one\ncommand = \"x\"\n[ mcp . b ]\ncommand = \"y\"\n",
        ] {
            let after = remove_server(text, "a").unwrap();
            let left = parse(&after).unwrap();
            assert!(
                find_server(&left, "a").is_none() && find_server(&left, "b").is_some(),
                "{after}"
            );
        }
        for text in [
            "mcp = { a = { command = \"x\" }, b = { command = \"y\" } }\n",
            "[mcp]\na.args = [\n\"x\"\n]\n",
        ] {
            let problem = remove_server(text, "a").unwrap_err();
            assert!(problem.contains("by hand"), "{problem}");
        }
    }

    #[test]
    fn a_server_is_added_at_the_end() {
        let table = |text: &str| text.parse::<Table>().unwrap();
        let new = table("command = 'a \"b\"'\nargs = ['-y', '']\nenv = {A = '${A}'}");
        let after = add_server("model = \"m\" # fast", "new", &new).unwrap();
        assert!(
            after.starts_with(
                "model = \"m\" # fast\n\n[mcp.new]\ncommand = 'a \"b\"'\nargs = [\"-y\", \"\"]\n"
            ),
            "{after}"
        );
        assert_eq!(parse(&after).unwrap()["mcp"]["new"].as_table(), Some(&new));
        assert!(add_server("", "new", &new).unwrap().starts_with("[mcp.new]"));
        assert!(add_server(&after, "new", &new).unwrap_err().contains("already"));
        let problem = add_server("mcp = {a = {command = 'x'}}", "new", &new).unwrap_err();
        assert!(problem.contains("by hand"), "{problem}");
        assert!(
            add_server("x = ", "new", &new)
                .unwrap_err()
                .contains("not valid TOML")
        );
    }
}
