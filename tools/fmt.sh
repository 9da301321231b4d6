#!/usr/bin/env bash
# clang-format over our C and C++ files, or over those named; --check only tells which would change. clang-format would
# rewrite any other text as if it were C++, so named files of other kinds are left alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=(-i)
if [ "${1:-}" = --check ]; then mode=(--dry-run -Werror); shift; fi
files=("$@")
[ "${#files[@]}" -gt 0 ] || mapfile -t files < <(git ls-files -co --exclude-standard -- '*.h' '*.cc' '*.c' ':!api/first_sizes.h')  # a program writes that one
kept=()
for file in "${files[@]}"; do case "$file" in *.h | *.cc | *.c) kept+=("$file") ;; *) echo "fmt: $file: not C or C++, left alone" >&2 ;; esac; done
[ "${#kept[@]}" -gt 0 ] || exit 0
clang-format "${mode[@]}" "${kept[@]}"
