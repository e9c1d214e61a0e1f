#!/usr/bin/env bash
# Fuzzes every fuzz target in the project for a while each, one after another:
#   scripts/fuzz.sh 60s
set -euo pipefail
cd "$(dirname "$0")/.."

duration=${1:?usage: scripts/fuzz.sh DURATION, such as 60s}
grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r package; do
  grep -h --include='*_test.go' -o '^func Fuzz[A-Za-z0-9_]*' "$package"/*_test.go | awk '{print $2}' | while read -r target; do
    echo "== $package $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$duration" "$package"
  done
done
