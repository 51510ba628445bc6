"""Checks the licenses of all dependencies, and that some of them exist in one version only. Works offline."""

import json
import re
import subprocess
import sys

ALLOWED = {
    "MIT", "MIT-0", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-1-Clause", "BSD-2-Clause",
    "BSD-3-Clause", "ISC", "Zlib", "Unlicense", "CC0-1.0", "Unicode-3.0", "0BSD", "BSL-1.0", "CDLA-Permissive-2.0",
    # Asks for the sentence about the Independent JPEG Group in README.md.
    "IJG",
}
ONCE = {"reqwest", "rustls", "hyper", "tokio", "serde_json"}


def permitted(expression: str) -> bool:
    """Returns whether every operand of `AND` in an SPDX expression offers an allowed license."""
    expression = expression.replace("/", " OR ")
    for part in re.split(r"\s+AND\s+", expression.replace("(", " ").replace(")", " ")):
        if not any(choice.strip() in ALLOWED for choice in re.split(r"\s+OR\s+", part)):
            return False
    return True


def main() -> int:
    metadata = json.loads(subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked"], check=True, capture_output=True,
    ).stdout)
    problems = []
    seen: dict[str, set[str]] = {}
    for package in metadata["packages"]:
        name, version = package["name"], package["version"]
        seen.setdefault(name, set()).add(version)
        licence = package.get("license")
        if not licence or not permitted(licence):
            problems.append(f"{name} {version}: licence {licence!r} is not allowed")
    for name in sorted(ONCE):
        if len(seen.get(name, ())) > 1:
            problems.append(f"{name} exists in several versions: {', '.join(sorted(seen[name]))}")
    for problem in problems:
        print(problem)
    print(f"{len(metadata['packages'])} packages checked, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
