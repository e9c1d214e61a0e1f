#!/usr/bin/env bash
# Fuzzes each fuzz target in the project for a while, one after another. What fails
# is printed, and kept under testdata/fuzz of its package, where every run of the
# tests tries it again.
#   scripts/fuzz.sh 60s          led by what covers new code
#   scripts/fuzz.sh 2s -race     not led by anything; builds what `make test` has built
set -euo pipefail
cd "$(dirname "$0")/.."

duration=${1:?usage: scripts/fuzz.sh DURATION [-race], such as 60s}
how=${2:--fuzz=.}

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
found=$(go env GOCACHE)/fuzz # what covers new code, from run to run
for package in $(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do
  binary=$built/$(basename "$package").test
  go test -c "$how" -o "$binary" "$package"
  for target in $(grep -h -o '^func Fuzz[A-Za-z0-9_]*' "$package"/*_test.go | cut -d' ' -f2); do
    echo "== $package $target"
    (cd "$package" && "$binary" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$duration" -test.fuzzminimizetime 5s -test.fuzzcachedir "$found/$package")
  done
done
