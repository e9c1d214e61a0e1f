#!/usr/bin/env bash
# What the program is made of: checks the modules against go.sum, lists the licence
# of each one that is built in, and looks for known vulnerabilities in what is
# called, where their list can be reached. Exits with 1 for a licence that is not
# known here, or asks for more than to be named, and for a vulnerability.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}

$go mod verify

# licence DIRECTORY names what stands in its licence file.
licence() {
  local file text
  file=$(find "$1" -maxdepth 1 -type f -iregex '.*/\(licen[cs]e\|copying\)\(\.[a-z]+\)?' | sort | head -n1)
  [[ $file ]] || { echo none && return; }
  text=$(tr -s '[:space:]' ' ' <"$file")
  case $text in
    *"GNU GENERAL PUBLIC"* | *"GNU LESSER"* | *"GNU AFFERO"*) echo GPL ;;
    *"Mozilla Public License"*) echo MPL-2.0 ;;
    *"Apache License"*) echo Apache-2.0 ;;
    *"Permission is hereby granted, free of charge"*) echo MIT ;;
    *"Permission to use, copy, modify, and"*"distribute this software"*) echo ISC ;;
    *"Redistribution and use in source and binary forms"*"name of"*) echo BSD-3-Clause ;;
    *"Redistribution and use in source and binary forms"*) echo BSD-2-Clause ;;
    *) echo unknown ;;
  esac
}

bad=0
while read -r path version directory; do
  kind=$(licence "$directory")
  printf '%-14s %s %s\n' "$kind" "$path" "$version"
  case $kind in none | unknown | GPL) bad=1 ;; esac
done < <($go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/gateway ./client | sort -u)
((bad == 0)) || { echo "audit: a licence is missing, unknown or asks for more than to be named" >&2 && exit 1; }

vulncheck=golang.org/x/vuln/cmd/govulncheck@v1.1.4
report=$(mktemp)
trap 'rm -f "$report"' EXIT
code=0
$go run "$vulncheck" ./... >"$report" 2>&1 || code=$?
case $code in
  0) echo "no known vulnerability is called" ;;
  3) cat "$report" && exit 1 ;;
  *)
    echo "audit: the list of vulnerabilities could not be read here, so nothing is known about them:" >&2
    tail -n3 "$report" >&2
    ;;
esac
