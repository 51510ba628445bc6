#!/usr/bin/env bash
# Checks the plugin: format, lints, tests.
#
# AGENTLS: the server; default: target/debug/agentls. NVIM, STYLUA, LUACHECK: the tools; default: from PATH. A missing
# tool is reported, and its check is skipped unless CI is set.
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
# Questions about commands are then the same on machines with and without a sandbox.
export AGENTLS_SANDBOX_METHOD=none
# The tests mostly wait, so parts of them run at the same time. Words select too few tests for that.
parts=3
[ $# -eq 0 ] || parts=1
output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT
for part in $(seq "$parts"); do
    AGENTLS_TEST_PART=$part/$parts "$nvim" --headless -u NONE -i NONE -n -l tests/run.lua "$@" >"$output/$part" 2>&1 &
done
wait
cat "$output"/*
# A Neovim that prompts without a user exits with code 0, so check the last lines.
for part in $(seq "$parts"); do
    tail -1 "$output/$part" | grep -q '[0-9] passed, 0 failed' ||
        { echo "FAILED: the tests did not all pass" >&2; exit 1; }
done
