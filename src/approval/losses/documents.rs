//! Reads a text for losses: without its here-documents if they keep it from being parsed to its end.
//!
//! Their texts may be long and hold any characters, and only a shell that gets one takes it for commands.

use super::LossReader;
use crate::approval::shell;

impl LossReader {
    pub(super) fn read_text(&mut self, text: &str) {
        let line = shell::parse(text);
        if !line.stopped_early {
            return self.read_line(&line);
        }
        if let Some((short, count)) = cut_documents(text) {
            let short = shell::parse(&short);
            // If the parser sees other documents, what was cut may be commands.
            let cut = short.input_texts.iter().filter(|text| text.is_empty());
            if !short.stopped_early && cut.count() == count {
                self.read_line(&short);
                if !self.reads_script {
                    return;
                }
            }
        }
        self.read_line(&line);
        self.read_pieces(text);
    }
}

/// Returns a text with empty here-documents, and how many it has; `None` if one runs commands or has no end.
fn cut_documents(text: &str) -> Option<(String, usize)> {
    let mut cut = String::new();
    let mut count = 0;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        cut.push_str(line);
        cut.push('\n');
        for (end, expands) in find_documents(line) {
            count += 1;
            loop {
                let line = lines.next()?;
                if line.trim_start_matches('\t') == end {
                    cut.push_str(line);
                    cut.push('\n');
                    break;
                }
                if expands && line.contains(['$', '`']) {
                    return None;
                }
            }
        }
    }
    Some((cut, count))
}

/// Returns the ends of the here-documents that a line starts, and whether their texts are expanded.
fn find_documents(line: &str) -> Vec<(&str, bool)> {
    let starts = line.match_indices("<<").map(|(at, _)| &line[at + 2..]);
    let starts = starts.filter_map(|rest| {
        let rest = rest.strip_prefix('-').unwrap_or(rest).trim_start();
        let quoted = rest.trim_start_matches(['\'', '"', '\\']);
        let end = quoted.find(|c: char| !c.is_alphanumeric() && c != '_');
        let name = &quoted[..end.unwrap_or(quoted.len())];
        (!name.is_empty()).then_some((name, quoted.len() == rest.len()))
    });
    starts.collect()
}

#[cfg(test)]
mod tests {
    use crate::approval::find_command_losses;

    fn count_targets(command: &str) -> usize {
        find_command_losses(command).targets.len()
    }

    #[test]
    fn long_documents_hide_no_command_and_are_no_commands() {
        let body = "if a { rm -rf b; } > c\u{3000}\n".repeat(9_000);
        for (command, want) in [
            (format!("cat > a <<'END'\n{body}END\nmv a b"), 2),
            (format!("cat <<-\"END\" >> a; cat <<X\n{body}\tEND\n{body}X\n"), 0),
            (format!("cat <<'END'\n{body}END\nrm -rf d"), 1),
        ] {
            assert_eq!(count_targets(&command), want, "{}", &command[..20]);
        }
        for command in [
            format!("bash <<'END'\n{body}END\n"),
            format!("echo \"<<X\"\n{body}X\n"),
            format!("cat <<END\n{body}$(rm -rf b)\nEND\n"),
            format!("cat <<'END'\n{body}"),
        ] {
            assert!(count_targets(&command) > 0, "{}", &command[..20]);
        }
    }
}
