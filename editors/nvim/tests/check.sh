#!/usr/bin/env bash
# Everything that must hold of the plugin: format, lints, tests.
#
# AGENTLS: the server; target/debug/agentls if it is not set. NVIM: the Neovim, STYLUA and LUACHECK the tools; from
# PATH if they are not set. What is not there is said, and skipped unless CI is set.
set -euo pipefail
cd "$(dirname "$0")/.."

tool() {
    command -v "$1" >/dev/null && return
    [ -z "${CI:-}" ] || { echo "FAILED: $1 is not installed" >&2; exit 1; }
    echo "NOT TESTED: $2. There is no $1." >&2
    return 1
}
stylua=${STYLUA:-stylua} luacheck=${LUACHECK:-luacheck} nvim=${NVIM:-nvim}
if tool "$stylua" "the format"; then "$stylua" --check --glob '**/*.lua' --glob '!**/protocol.lua' .; fi
if tool "$luacheck" "the lints"; then "$luacheck" --quiet .; fi
# A Neovim that asks something where nobody answers leaves with code 0: only the last line counts.
said=$(mktemp)
trap 'rm -f "$said"' EXIT
"$nvim" --headless -u NONE -i NONE -n -l tests/run.lua "$@" 2>&1 | tee "$said"
tail -1 "$said" | grep -q '[0-9] passed, 0 failed' || { echo "FAILED: the tests did not all pass" >&2; exit 1; }
