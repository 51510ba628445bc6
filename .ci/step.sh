# step NAME COMMAND…: runs the command, prints its duration, and ends the script if it fails.
step() {
    local name=$1
    shift
    local begun=$SECONDS
    echo "== $name: $*"
    if ! "$@"; then
        echo "FAILED: $name ($*)" >&2
        exit 1
    fi
    echo "== $name: ok, $((SECONDS - begun)) s"
}
