#!/usr/bin/env bash
# clang-format over our C and C++ files, or over those named; --check only tells which would change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=(-i)
if [ "${1:-}" = --check ]; then mode=(--dry-run -Werror); shift; fi
files=("$@")
[ "${#files[@]}" -gt 0 ] || mapfile -t files < <(git ls-files -co --exclude-standard -- '*.h' '*.cc' '*.c' ':!api/first_sizes.h')  # a program writes that one
[ "${#files[@]}" -gt 0 ] || exit 0
clang-format "${mode[@]}" "${files[@]}"
