#!/usr/bin/env bash
# What must hold before any test runs: formatting, no left-overs of a merge, vet,
# and that the generated code is what openapi.yaml says.
set -euo pipefail
cd "$(dirname "$0")/.."

unformatted=$(gofmt -l $(git ls-files '*.go'))
if [[ -n $unformatted ]]; then
  echo "not formatted (gofmt -w):" >&2
  echo "$unformatted" >&2
  exit 1
fi

if git grep -nE '^(<{7}|>{7}) ' >&2; then
  echo "conflict markers left by a merge" >&2
  exit 1
fi

go vet ./...

before=$(sha256sum internal/api/api.gen.go)
go generate ./internal/api
if [[ $before != "$(sha256sum internal/api/api.gen.go)" ]]; then
  echo "internal/api/api.gen.go was not up to date with openapi.yaml; it is now, commit it" >&2
  exit 1
fi
