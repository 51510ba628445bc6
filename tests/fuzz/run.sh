#!/usr/bin/env bash
# Fuzzes everything that parses bytes from outside, for a bounded time, with libFuzzer and the stable compiler.
#
#   tests/fuzz/run.sh [--seconds N] [TARGET…]    fuzzes these targets, or all, N seconds each; the default is 60
#   tests/fuzz/run.sh --replay TARGET FILE       runs one input, such as one that failed
#
# Inputs that fail are left in .cache/fuzz/failures/TARGET, and inputs that reach new code in .cache/fuzz/corpus/TARGET,
# where the next run starts from. AGENTLS_TEST_CACHE names another cache folder.
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=60
replay=
targets=()
while [ $# -gt 0 ]; do
    case $1 in
    --seconds)
        seconds=${2:?}
        shift
        ;;
    --replay)
        targets=("${2:?}")
        replay=${3:?}
        shift 2
        ;;
    -*)
        echo "unknown option $1; see the head of $0" >&2
        exit 2
        ;;
    *) targets+=("$1") ;;
    esac
    shift
done
if [ ${#targets[@]} -eq 0 ]; then
    targets=(frame_reader stream_decoders shell_parser permission_rules)
fi
for target in "${targets[@]}"; do
    [ -f "tests/fuzz/targets/$target.rs" ] || {
        echo "there is no target $target; see tests/fuzz/targets" >&2
        exit 2
    }
done

cache=${AGENTLS_TEST_CACHE:-$PWD/.cache}/fuzz
mkdir -p "$cache"
host=$(rustc -vV | sed -n 's/^host: //p')
# What `cargo fuzz` passes without a sanitizer. All of it is stable; the program has no unsafe code to sanitize.
flags=(
    --cfg fuzzing
    -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares
)
case $host in
*-linux-*) flags+=(-Cllvm-args=-sanitizer-coverage-stack-depth) ;;
esac
# The same versions as in the program, which is why this lock file is not in the repository.
cp Cargo.lock tests/fuzz/Cargo.lock
# With `--target`, the flags do not reach build scripts and macros.
RUSTFLAGS="${flags[*]}" CARGO_TARGET_DIR=target/fuzz cargo build --quiet --release --target "$host" \
    --manifest-path tests/fuzz/Cargo.toml
binaries=target/fuzz/$host/release

if [ -n "$replay" ]; then
    RUST_BACKTRACE=1 exec "./$binaries/${targets[0]}" "$replay"
fi

# fuzz TARGET: fails if an input fails.
fuzz() {
    local target=$1 log=$cache/$1.log corpus=$cache/corpus/$1 failures=$cache/failures/$1 result=0 executions input
    mkdir -p "$corpus" "$failures"
    touch "$cache/started"
    RUST_BACKTRACE=1 "./$binaries/$target" "$corpus" "tests/fuzz/seeds/$target" \
        -dict="tests/fuzz/dictionaries/$target.dict" -artifact_prefix="$failures/" -max_total_time="$seconds" \
        -max_len=2048 -timeout=30 -rss_limit_mb=2048 -print_final_stats=1 >"$log" 2>&1 || result=$?
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "$target: ${executions:-no} executions, $(find "$corpus" -type f | wc -l) inputs in $corpus"
    [ "$result" -eq 0 ] && return
    # The counters of libFuzzer come after what went wrong.
    grep -v -e '^#[0-9]' -e '^INFO' -e '^stat::' -e '^	NEW_FUNC' "$log" | tail -n 60 >&2
    for input in $(find "$failures" -type f -newer "$cache/started"); do
        echo "FAILED: replay with: tests/fuzz/run.sh --replay $target $input" >&2
    done
    return 1
}

failed=()
for target in "${targets[@]}"; do
    fuzz "$target" || failed+=("$target")
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}" >&2
    exit 1
fi
