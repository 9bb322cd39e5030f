# shellcheck shell=bash
# Sourced by the scripts (and run by scripts/install): installs the Debian packages of packages.txt that are missing, and checks Go.
# It asks nothing, says what and why, and needs root (or sudo, for apt alone) only when something is missing.

lib=$(dirname "${BASH_SOURCE[0]}")

# have PROBE: is this part here already? The probes ask for the thing itself, so that a tool from elsewhere counts too.
have() {
  case $1 in
    cmd:*) command -v "${1#cmd:}" >/dev/null 2>&1 ;;
    pc:*) command -v pkg-config >/dev/null 2>&1 && pkg-config --exists "${1#pc:}" ;;
    lib:*) PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | grep -q -F "${1#lib:} " ;;
    file:*) [ -e "${1#file:}" ] ;;
    *) echo "packages.txt: unknown probe $1" >&2; return 2 ;;
  esac
}

# missing PURPOSE...: prints "package<TAB>why" for each package of these purposes whose probe fails. Scripts with packages
# of their own keep a second list (scripts/bench.d/packages.txt). Exported to a child, it finds the lists from the root.
missing() {
  local want=" $* " purpose package probe why lib=${lib:-scripts/lib}
  while read -r purpose package probe why; do
    [[ $want == *" $purpose "* ]] || continue
    have "$probe" || printf '%s\t%s\n' "$package" "$why"
  done < <(find "$lib/.." -maxdepth 2 -name packages.txt -exec cat {} + | grep -v -E '^(#|$)')
}

# need PURPOSE...: installs what is missing; ends the script with a sentence when that cannot be done.
need() {
  local list names log sudo=""
  list=$(missing "$@" | sort -u)
  [ -n "$list" ] || return 0
  mapfile -t names < <(cut -f1 <<<"$list" | sort -u)
  echo "Installing Debian packages:"
  while IFS=$'\t' read -r package why; do printf '  %-20s %s\n' "$package" "$why"; done <<<"$list"
  if ! command -v apt-get >/dev/null 2>&1; then
    echo "This machine has no apt-get. Install the equivalents of the packages above, then start again." >&2
    exit 1
  fi
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
      echo "This needs root once. As root: apt-get install --no-install-recommends ${names[*]}" >&2
      echo "Then start again; nothing else here needs root." >&2
      exit 1
    fi
    sudo="sudo"
  fi
  log=$(mktemp)
  # The lists may be absent or older than the mirror: update once, then install.
  if ! { apt_get update && apt_get install -y --no-install-recommends "${names[@]}"; } >"$log" 2>&1; then
    tail -n 25 "$log" >&2
    rm -f "$log"
    echo "apt-get failed (see above). Mend that, or install by hand: ${names[*]}" >&2
    exit 1
  fi
  rm -f "$log"
  list=$(missing "$@" | cut -f1 | sort -u | tr '\n' ' ')
  if [ -n "$list" ]; then
    echo "Still missing after the installation: $list" >&2
    exit 1
  fi
}

apt_get() { ${sudo:+"$sudo"} env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@"; }

# need_go: Go in the version that go.mod asks for. An older Go (1.21 or later) fetches that version by itself.
need_go() {
  local wanted version
  wanted=$(sed -n 's/^go //p' go.mod)
  [ -x /usr/local/go/bin/go ] && PATH=$PATH:/usr/local/go/bin
  if ! command -v go >/dev/null 2>&1; then
    echo "Go is not installed. Sightline needs Go $wanted or later: https://go.dev/doc/install" >&2
    exit 1
  fi
  if ! version=$(go env GOVERSION 2>&1); then
    echo "Sightline needs Go $wanted or later, and $(command -v go) could not provide it: $version" >&2
    exit 1
  fi
  case $version in
    go1.*) [ "$(printf '%s\n' "$wanted" "${version#go}" | sort -V | head -n 1)" = "$wanted" ] || {
      echo "Sightline needs Go $wanted or later; $(command -v go) is $version. See https://go.dev/doc/install" >&2
      exit 1
    } ;;
  esac
}
