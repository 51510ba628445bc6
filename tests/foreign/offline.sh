#!/usr/bin/env bash
# Shows that the server talks only to its provider: the demo works in a network namespace that has only a loopback
# interface. If strace is installed, it also shows that no other address is tried.
#
# AGENTLS: the binary; the default is target/debug/agentls.
set -euo pipefail
cd "$(dirname "$0")/../.."
binary=$(realpath "${AGENTLS:-target/debug/agentls}")

skip() {
    echo "skipped: $*"
    exit 0
}
fail() {
    echo "FAILED: $*" >&2
    exit 1
}

[ "$(uname -s)" = Linux ] || skip "network namespaces exist only on Linux"
command -v unshare >/dev/null || skip "unshare (util-linux) is not installed"
refused=$(unshare --map-root-user --net true 2>&1) || skip "cannot create a network namespace: $refused"

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT

# Enables the loopback interface, checks that there is no other interface, and runs the command in its place.
cat >"$home/only-loopback.py" <<'PYTHON'
import fcntl, os, socket, struct, sys

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
    flags = struct.unpack("16sh", fcntl.ioctl(control, SIOCGIFFLAGS, struct.pack("16sh", b"lo", 0)))[1]
    fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | IFF_UP))
try:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
    sys.exit("this namespace has a route to the outside")
except OSError:
    pass
os.execvp(sys.argv[1], sys.argv[1:])
PYTHON

# Prints every address of an strace log that is not loopback, and fails if there is one.
cat >"$home/others.py" <<'PYTHON'
import re, sys

others, seen = set(), 0
for line in open(sys.argv[1], errors="replace"):
    address = re.search(r'sa_family=AF_INET6?, .*?"([0-9a-fA-F:.]+)"', line)
    if address:
        seen += 1
        if not re.fullmatch(r"127\..*|::1|::ffff:127\..*", address[1]):
            others.add(address[1])
print(f"{seen} uses of internet addresses, {len(others)} of them not loopback:", *sorted(others))
sys.exit(1 if others else 0 if seen else 2)
PYTHON

# Runs a command in the empty namespace, with none of the user's environment.
alone() {
    env -i PATH="$PATH" HOME="$home" TMPDIR="$home" XDG_CONFIG_HOME="$home/config" XDG_DATA_HOME="$home/data" \
        XDG_STATE_HOME="$home/state" unshare --map-root-user --net python3 "$home/only-loopback.py" "$@"
}

alone "$binary" demo --yes >"$home/demo.txt" 2>&1 ||
    { cat "$home/demo.txt" >&2; fail "the demo does not work with only a loopback interface (see its output above)"; }
grep -q "you have seen" -i "$home/demo.txt" || fail "the demo succeeded but did not print its list"
echo "ok: the demo works with a loopback interface only"

command -v strace >/dev/null || skip "strace is not installed, so other addresses would not be noticed"
refused=$(alone strace -f -o /dev/null true 2>&1) || skip "strace is not permitted to trace: $refused"
traced() {
    local to=$1
    shift
    alone strace -f -e trace=connect,sendto,sendmsg,sendmmsg -e signal=none -o "$to" "$@"
}

# A control: this provider has another address, so the trace must show it. Otherwise the check proves nothing.
mkdir -p "$home/config/agentls"
printf '[provider.far]\nkind = "openai"\nbase_url = "http://192.0.2.1:9/v1"\napi_key = "none"\nmodel = "far"\nmax_retries = 0\n' \
    >"$home/config/agentls/config.toml"
cat >"$home/ask.py" <<'PYTHON'
import json, os, subprocess, sys

server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=os.environ["HOME"])


def send(**message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    server.stdin.flush()


def request(id, method, params):
    send(id=id, method=method, params=params)
    while True:
        length = 0
        while (line := server.stdout.readline()) != b"\r\n":
            if not line:
                sys.exit(f"the server ended before it answered {method}")
            name, value = line.split(b":")
            length = int(value) if name.lower() == b"content-length" else length
        message = json.loads(server.stdout.read(length))
        if message.get("id") == id and "method" not in message:
            return message.get("result") or sys.exit(str(message))


request(1, "initialize", {"processId": os.getpid(), "capabilities": {}})
send(method="initialized", params={})
session = request(2, "agent/newSession", {"cwd": os.environ["HOME"]})["sessionId"]
print(request(3, "agent/prompt", {"sessionId": session, "prompt": "hello"}))
server.stdin.close()
server.wait()
PYTHON
traced "$home/control.trace" python3 "$home/ask.py" "$binary" >"$home/control.txt" 2>&1 ||
    { cat "$home/control.txt" >&2; fail "the control request failed (see the output above)"; }
python3 "$home/others.py" "$home/control.trace" >"$home/control.seen" || true
grep -q '192\.0\.2\.1' "$home/control.seen" || {
    cat "$home/control.txt" "$home/control.seen" >&2
    fail "the server called a provider at 192.0.2.1, but the trace does not show the address: the check is broken"
}
rm -r "$home/config"

traced "$home/demo.trace" "$binary" demo --yes >"$home/traced.txt" 2>&1 ||
    { cat "$home/traced.txt" >&2; fail "the demo does not work under strace (see its output above)"; }
python3 "$home/others.py" "$home/demo.trace" || fail "the demo used an address that is not loopback, or none at all (see above)"
echo "ok: no other address was tried"
