#!/usr/bin/env bash
# Installs what a build with clang needs, for sanitizers and libFuzzer: Debian's clang-19 and its runtime. Quick when they are there.
set -euo pipefail
root=()
[ "$(id -u)" = 0 ] || root=(sudo -n)
for package in clang-19 libclang-rt-19-dev; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null || true)" = installed ] ||
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$package"
done
