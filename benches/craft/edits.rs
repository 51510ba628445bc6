//! Edits as models bend them: how many are made as meant, how many are refused, and how many go wrong.

use std::path::Path;

use serde_json::json;

use crate::mock_llm::Reply;
use crate::world::{MODELS, Model, World, format_table};

const PYTHON: &str = "import json\n\n\nclass Cart:\n    def __init__(self, owner):\n        self.owner = owner\n        \
    self.items = []\n\n    def add(self, name, price):\n        # The \"best\" price wins.\n        for item in self.items:\n            \
    if item[\"name\"] == name:\n                item[\"price\"] = min(item[\"price\"], price)\n                return\n        \
    self.items.append({\"name\": name, \"price\": price})\n\n    def total(self):\n        return sum(item[\"price\"] for item in self.items)\n\n    \
    def to_json(self):\n        return json.dumps({\"owner\": self.owner, \"items\": self.items})\n";

const GO: &str = "package cart\n\nimport \"errors\"\n\ntype Item struct {\n\tName  string\n\tPrice int\n}\n\n\
    func Total(items []Item) (int, error) {\n\tif len(items) == 0 {\n\t\treturn 0, errors.New(\"no items\")\n\t}\n\tsum := 0\n\t\
    for _, item := range items {\n\t\tsum += item.Price\n\t}\n\treturn sum, nil\n}\n";

/// A file, a piece of it, and what the piece becomes.
struct Case {
    name: &'static str,
    text: &'static str,
    old: &'static str,
    new: &'static str,
}

const CASES: [Case; 3] = [
    Case {
        name: "cart.py",
        text: PYTHON,
        old: "        # The \"best\" price wins.\n        for item in self.items:\n            if item[\"name\"] == name:\n",
        new: "        # The \"best\" price wins.\n        for item in reversed(self.items):\n            if item[\"name\"] == name:\n",
    },
    Case {
        name: "total.py",
        text: PYTHON,
        old: "    def total(self):\n        return sum(item[\"price\"] for item in self.items)\n\n    def to_json(self):\n",
        new: "    def total(self, tax=0):\n        net = sum(item[\"price\"] for item in self.items)\n        return net + tax\n\n    def to_json(self):\n",
    },
    Case {
        name: "cart.go",
        text: GO,
        old: "\tfor _, item := range items {\n\t\tsum += item.Price\n\t}\n",
        new: "\tfor _, item := range items {\n\t\tif item.Price > 0 {\n\t\t\tsum += item.Price\n\t\t}\n\t}\n",
    },
];

/// A way to bend a text, which leaves its meaning alone or not.
struct Bend {
    name: &'static str,
    bend: fn(&str) -> String,
    /// What was meant can be told from the bent text.
    is_clear: bool,
}

const BENDS: [Bend; 11] = [
    Bend {
        name: "none",
        bend: str::to_owned,
        is_clear: true,
    },
    Bend {
        name: "spaces at line ends",
        bend: |text| text.replace('\n', "  \n"),
        is_clear: true,
    },
    Bend {
        name: "no indentation",
        bend: |text| map_lines(text, |_, line| line.trim_start().to_owned()),
        is_clear: true,
    },
    Bend {
        name: "four spaces less",
        bend: |text| {
            map_lines(text, |_, line| {
                line.strip_prefix("    ").unwrap_or(line).to_owned()
            })
        },
        is_clear: true,
    },
    Bend {
        name: "tabs as spaces",
        bend: |text| text.replace('\t', "    "),
        is_clear: true,
    },
    Bend {
        name: "curly quotes",
        bend: |text| text.replace('"', "\u{201d}"),
        is_clear: true,
    },
    Bend {
        name: "line numbers",
        bend: |text| map_lines(text, |n, line| format!("{:>6}\t{line}", n + 5)),
        is_clear: true,
    },
    Bend {
        name: "a code fence",
        bend: |text| format!("```\n{text}```\n"),
        is_clear: true,
    },
    Bend {
        name: "one level of escapes",
        bend: |text| text.replace('"', "\\\"").replace('\n', "\\n"),
        is_clear: true,
    },
    Bend {
        name: "another word",
        bend: |text| text.replacen("item", "entry", 1),
        is_clear: false,
    },
    Bend {
        name: "a line left out",
        bend: |text| {
            let lines = text.split_inclusive('\n').enumerate();
            lines.filter(|(at, _)| *at != 1).map(|(_, line)| line).collect()
        },
        is_clear: false,
    },
];

fn map_lines(text: &str, map: impl Fn(usize, &str) -> String) -> String {
    text.lines()
        .enumerate()
        .map(|(n, line)| map(n, line) + "\n")
        .collect()
}

/// Builds a call that replaces the second text by the third in the file of the first.
type BuildCall = fn(&str, &str, &str) -> Reply;

/// Describes how many bent edits end as meant, with each of the tools. Both texts of an edit are bent in the same way.
pub fn describe_bent_edits(binary: &Path) -> String {
    let tools: [(Model, BuildCall); 2] = [(MODELS[0], call_edit_file), (MODELS[2], call_apply_patch)];
    let mut rows = Vec::new();
    for bend in &BENDS {
        let meaning = if bend.is_clear { "clear" } else { "not clear" };
        let mut row = vec![format!("{} ({meaning})", bend.name)];
        for (model, call) in tools {
            row.extend(count_outcomes(binary, bend, model, call).map(|count| count.to_string()));
        }
        rows.push(row);
    }
    let heads = [
        "bend",
        "edit_file: as meant",
        "refused",
        "wrong",
        "apply_patch: as meant",
        "refused",
        "wrong",
    ];
    format_table("Bent edits", &heads, &rows)
}

/// Counts the edits that are made as meant, refused, and made wrong.
fn count_outcomes(
    binary: &Path,
    Bend { bend, is_clear, .. }: &Bend,
    model: Model,
    call: BuildCall,
) -> [usize; 3] {
    let world = World::new(model);
    let mut replies = Vec::new();
    for case in &CASES {
        world.write(case.name, case.text);
        let new = if *is_clear {
            bend(case.new)
        } else {
            case.new.to_owned()
        };
        replies.push(call(case.name, &bend(case.old), &new));
    }
    replies.push(Reply::text("done"));
    world.run(binary, replies);
    let [mut made, mut refused, mut wrong] = [0; 3];
    for case in &CASES {
        let text = world.read(case.name);
        let meant = case.text.replacen(case.old, case.new, 1);
        match () {
            () if text == case.text => refused += 1,
            () if *is_clear && text == meant => made += 1,
            () => wrong += 1,
        }
    }
    [made, refused, wrong]
}

fn call_edit_file(path: &str, old: &str, new: &str) -> Reply {
    let edit = json!({"old_text": old, "new_text": new});
    Reply::tool("edit_file", json!({"path": path, "edits": [edit]}))
}

/// Calls `apply_patch` with a hunk that keeps the lines that both texts begin and end with.
fn call_apply_patch(path: &str, old: &str, new: &str) -> Reply {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old[head..].iter().rev().zip(new[head..].iter().rev());
    let tail = rest.take_while(|(old, new)| old == new).count();
    let mark = |mark: char, lines: &[&str]| -> String {
        lines.iter().map(|line| format!("{mark}{line}\n")).collect()
    };
    let lines = [
        mark(' ', &old[..head]),
        mark('-', &old[head..old.len() - tail]),
        mark('+', &new[head..new.len() - tail]),
        mark(' ', &old[old.len() - tail..]),
    ];
    let patch = format!(
        "*** Begin Patch\n*** Update File: {path}\n@@\n{}*** End Patch\n",
        lines.concat()
    );
    Reply::custom("apply_patch", &patch)
}
