# step NAME COMMAND…: runs the command, prints how long it took and how much CPU time it used, and ends the script if it
# fails.
step() {
    local name=$1 TIMEFORMAT="== $1: %0R s, CPU %0U s + %0S s in the kernel"
    shift
    echo "== $name: $*"
    if ! time "$@"; then
        echo "FAILED: $name ($*)" >&2
        exit 1
    fi
}
