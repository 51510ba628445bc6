#!/usr/bin/env bash
# Runs all tests, and installs by itself what they need (into .cache, nothing system-wide but Debian packages
# where a test drives a real editor). `cargo test` alone is the Rust part.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test --locked "$@"

echo "all tests passed"
