//! The manual page for `man agentls`, from the Markdown of the command-line reference.

/// What precedes the commands.
const HEAD: &str = "\
.\\\" Generated from src/cli/args.rs: UPDATE_PROTOCOL=1 cargo test --test repository
.TH AGENTLS 1 \"\" agentls \"User Commands\"
.SH NAME
agentls \\- an LLM coding agent behind any editor
";

/// Renders `docs/man/agentls.1` from `docs/reference/cli.md`, which has headings, text, code blocks, and tables of two columns.
pub(crate) fn page(reference: &str) -> String {
    let (mut page, mut is_code) = (HEAD.to_owned(), false);
    let (_, commands) = reference.split_once("\n## ").unwrap_or_default();
    for line in format!("## {commands}").lines() {
        let row = line.strip_prefix("| ").and_then(|row| row.strip_suffix(" |"));
        let text = if line.starts_with("```") {
            is_code = !is_code;
            if is_code { ".PP\n.nf" } else { ".fi" }.to_owned()
        } else if is_code {
            escape(line)
        } else if let Some(name) = line.strip_prefix("## ") {
            format!(".SH \"{}\"", escape(&name.to_uppercase()))
        } else if let Some((argument, meaning)) = row.and_then(|row| row.split_once(" | ")) {
            if argument == "argument" {
                continue;
            }
            format!(".TP\n\\fB{}\\fR\n{}", escape(argument), escape(meaning))
        } else if line.is_empty() || line.starts_with("|-") {
            continue;
        } else {
            format!(".PP\n{}", escape(line))
        };
        page.push_str(&text);
        page.push('\n');
    }
    page
}

/// Escapes what `man` would read as a request or as a mark, and drops the marks of Markdown.
fn escape(text: &str) -> String {
    let plain = text.replace('`', "").replace("\\|", "|");
    let escaped = plain.replace('\\', "\\e").replace('-', "\\-");
    if escaped.starts_with(['.', '\'']) {
        format!("\\&{escaped}")
    } else {
        escaped
    }
}
