#!/usr/bin/env bash
# Makes sure that the programs which `gateway dev` and the tests start are on
# this machine: the PostgreSQL server and Redis; and for the tests PgBouncer, etcd,
# Node.js with npm, which run the stock JavaScript client, Python, which runs an
# example, promtool, which checks the alert rules, and Chromium, which looks at the
# dashboard. Names may be given:
#
#   scripts/deps.sh [postgres] [redis] [pgbouncer] [etcd] [node] [python] [promtool] [chromium]
#
# (default: postgres redis)
#
# Installs what is missing on Debian and Ubuntu, as root or by `sudo` without a
# password, and leaves no service running. Elsewhere, says what to install and
# exits with 1. Says nothing when all is there.
set -euo pipefail

# The places are those of internal/devstack/find.go.
have_postgres() {
  local program dir
  if program=$(command -v postgres); then
    dir=$(dirname "$(readlink -f "$program")")
    [[ -x $dir/initdb ]] && return
  fi
  if dir=$(pg_config --bindir 2>/dev/null) && [[ -x $dir/initdb && -x $dir/postgres ]]; then
    return
  fi
  for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/libexec/postgresql* \
    /opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin \
    /Applications/Postgres.app/Contents/Versions/*/bin; do
    [[ -x $dir/initdb && -x $dir/postgres ]] && return
  done
  return 1
}

have_redis() {
  local name dir
  for name in redis-server valkey-server; do
    command -v "$name" >/dev/null && return
    for dir in /usr/bin /usr/sbin /usr/local/bin /opt/homebrew/bin; do
      [[ -x $dir/$name ]] && return
    done
  done
  return 1
}

# Below 20 a Node.js can't run the tests of test/interop.
have_node() {
  local version
  command -v npm >/dev/null && version=$(node --version 2>/dev/null) || return 1
  version=${version#v}
  ((${version%%.*} >= 20))
}

# Below 3.9 a Python can't run examples/worker.py.
have_python() {
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null
}

# The names are those of internal/testenv/browser.
have_chromium() {
  local name
  for name in chromium chromium-browser google-chrome-stable google-chrome; do
    have_program "$name" && return
  done
  [[ -x "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" ]]
}

have_pgbouncer() { have_program pgbouncer; }

have_etcd() { have_program etcd; }

have_promtool() { have_program promtool; }

have_program() {
  local dir
  command -v "$1" >/dev/null && return
  for dir in /usr/sbin /usr/bin /usr/local/sbin /usr/local/bin /opt/homebrew/bin; do
    [[ -x $dir/$1 ]] && return
  done
  return 1
}

# packages MANAGER prints its names for what is missing.
packages() {
  local need names=()
  for need in "${missing[@]}"; do
    case $1:$need in
      dnf:postgres) names+=(postgresql-server) ;;
      *:postgres) names+=(postgresql) ;;
      apt-get:redis) names+=(redis-server) ;;
      *:redis) names+=(redis) ;;
      brew:node) names+=(node) ;;
      *:node) names+=(nodejs npm) ;;
      *:pgbouncer) names+=(pgbouncer) ;;
      apt-get:etcd) names+=(etcd-server) ;;
      *:etcd) names+=(etcd) ;;
      *:python) names+=(python3) ;;
      *:chromium) names+=(chromium) ;;
      dnf:promtool) names+=(golang-github-prometheus) ;;
      *:promtool) names+=(prometheus) ;;
    esac
  done
  echo "${names[*]}"
}

give_up() {
  local manager
  for manager in apt-get:install dnf:install apk:add brew:install; do
    if command -v "${manager%:*}" >/dev/null; then
      echo "deps: missing ${missing[*]}: run \`${manager/:/ } $(packages "${manager%:*}")\`${1:+ ($1)}" >&2
      exit 1
    fi
  done
  echo "deps: missing ${missing[*]}: install what they are, with their server programs (Node.js 20 or newer, with npm; Python 3.9 or newer)" >&2
  exit 1
}

# apt runs apt-get without questions. RUNLEVEL keeps SysV scripts from starting
# what is installed; systemd does not look at it, see leave_stopped.
apt() {
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
    apt-get -qq -o DPkg::Lock::Timeout=120 "$@" >>"$log" 2>&1 9<&-
}

# leave_stopped undoes that packages start and enable their services: only the
# programs are wanted here.
leave_stopped() {
  [[ -d /run/systemd/system ]] || return 0
  local need
  for need in "${missing[@]}"; do
    case $need in
      postgres) need=postgresql ;;
      redis) need=redis-server ;;
      promtool) need=prometheus ;;
      node | python | chromium) continue ;;
    esac
    "${root[@]}" systemctl --quiet disable --now "$need" >>"$log" 2>&1 || true
  done
}

install_debian() {
  root=()
  if ((EUID != 0)); then
    root=(sudo -n)
    "${root[@]}" true 2>/dev/null || give_up "as root"
  fi
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  local names
  read -ra names <<<"$(packages apt-get)"
  apt update || true # one broken source need not matter
  if ! apt install -y --no-install-recommends "${names[@]}"; then
    tail -n 20 "$log" >&2
    give_up "that did not work here"
  fi
  leave_stopped
}

find_missing() {
  missing=()
  local need
  for need in "$@"; do
    case $need in
      postgres | redis | pgbouncer | etcd | node | python | promtool | chromium) "have_$need" || missing+=("$need") ;;
      *) echo "deps: unknown name $need: postgres, redis, pgbouncer, etcd, node, python, promtool or chromium" >&2 && exit 1 ;;
    esac
  done
}

(($# > 0)) || set -- postgres redis
find_missing "$@"
((${#missing[@]} == 0)) && exit 0
command -v apt-get >/dev/null || give_up ""
# One at a time: apt-get update does not wait for another. The script itself is
# the lock, so that none is left over.
exec 9<"$0"
flock 9
find_missing "$@"
((${#missing[@]} == 0)) && exit 0
install_debian
find_missing "$@"
((${#missing[@]} == 0)) || give_up "installed, but not found or too old"
