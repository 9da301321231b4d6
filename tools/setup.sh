#!/usr/bin/env bash
# Installs what tools/apt.txt and tools/pip.txt name: Debian packages into the system, Python packages into .venv.
# Quick when nothing is missing: a stamp in .venv holds the digest of both lists. Run by `./dev setup`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

LOG=build/setup.log
STAMP=.venv/.backplane-setup
mkdir -p build

say() { echo "setup: $*"; }
die() { echo "setup: $*" >&2; exit 1; }
names() { sed 's/#.*//; s/[[:space:]]//g; /^$/d' "$1"; }

DIGEST="$(names tools/apt.txt; names tools/pip.txt)"
DIGEST="$(sha256sum <<< "$DIGEST" | cut -d' ' -f1)"
if [ -x .venv/bin/python ] && [ "$(cat "$STAMP" 2> /dev/null)" = "$DIGEST" ]; then exit 0; fi

# ---- Debian packages --------------------------------------------------------------------------------------------
command -v dpkg-query > /dev/null || die "this is not a Debian system; install what tools/apt.txt names by hand"
missing=()
for p in $(names tools/apt.txt); do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2> /dev/null || true)" = installed ] || missing+=("$p")
done

if [ "${#missing[@]}" -gt 0 ]; then
  root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo > /dev/null && sudo -n true 2> /dev/null && root=(sudo -n) ||
      die "Debian packages are missing and this user cannot install them; as root: apt-get install ${missing[*]}"
  fi
  apt() { "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@"; }
  say "apt: reading the package lists"
  apt update > "$LOG" 2>&1 || die "apt: the package lists cannot be read: $(grep -m1 -E '^[EW]:' "$LOG" || tail -1 "$LOG")"
  for p in "${missing[@]}"; do
    [ -n "$(apt-cache policy "$p" | sed -n 's/^  Candidate: *//p' | grep -v '(none)' || true)" ] || die "apt: package '$p' cannot be had"
  done
  say "apt: installing ${#missing[@]} packages: ${missing[*]}"
  apt install -y --no-install-recommends "${missing[@]}" 2>&1 | tee "$LOG" | sed -un 's/^Setting up \([^ ]*\).*/setup: apt: \1/p' ||
    die "apt: $(grep -m1 '^E:' "$LOG" || tail -1 "$LOG")"
fi

# ---- Python packages --------------------------------------------------------------------------------------------
if ! .venv/bin/python -c 'import pip' 2> /dev/null; then
  py=python3
  "$py" -c 'import ensurepip' 2> /dev/null || py=/usr/bin/python3
  "$py" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "python 3.11 or newer is needed, found $("$py" --version)"
  say "pip: making .venv"
  rm -rf .venv
  "$py" -m venv .venv > "$LOG" 2>&1 || die "pip: .venv cannot be made: $(tail -1 "$LOG")"
fi
say "pip: installing $(names tools/pip.txt | wc -l) packages and what they need"
.venv/bin/python -m pip install --disable-pip-version-check --progress-bar off -r tools/pip.txt 2>&1 | tee "$LOG" |
  sed -un 's/^Collecting \([^ ]*\).*/setup: pip: \1/p; s/^Installing collected packages.*/setup: pip: unpacking/p' ||
  die "pip: $(sed -n 's/^ERROR: No matching distribution found for \(.*\)/package '"'\1'"' cannot be had/p' "$LOG" | head -1 | grep . || grep -m1 '^ERROR' "$LOG" || tail -1 "$LOG")"

echo "$DIGEST" > "$STAMP"
say "done"
