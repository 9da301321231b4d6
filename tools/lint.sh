#!/usr/bin/env bash
# lint.sh BUILD_DIR [FILE...]: the rules about the tree, the scripts' syntax; clang-tidy on the files named.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build="$1"; shift
python=.venv/bin/python
"$python" tests/include_rule_test.py
"$python" tests/repo_hygiene_test.py
for f in dev .ci/run tools/*.sh; do bash -n "$f"; done
git ls-files -co --exclude-standard -- '*.py' | "$python" -c '
import ast, sys
for name in sys.stdin.read().split():
    ast.parse(open(name).read(), name)'
if [ $# -gt 0 ]; then clang-tidy --quiet -p "$build" "$@"; fi
echo "lint: clean"
