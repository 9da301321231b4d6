#!/usr/bin/env bash
# sanitize.sh BUILD: the C++ tests and the conformance kit of a build with sanitizers. A finding fails the test that meets it.
# What is suppressed, and why, stands in cmake/sanitizers: third parties' code only.
set -euo pipefail
BUILD="$1"
HERE="$PWD/cmake/sanitizers"
# Tests ask for absurd sizes: those are errors, not a reason to stop.
export ASAN_OPTIONS="allocator_may_return_null=1:detect_leaks=1:check_initialization_order=1:strict_string_checks=1"
export LSAN_OPTIONS="suppressions=$HERE/lsan.supp:print_suppressions=0"
export UBSAN_OPTIONS="print_stacktrace=1:suppressions=$HERE/ubsan.supp"
export TSAN_OPTIONS="suppressions=$HERE/tsan.supp:halt_on_error=0:allocator_may_return_null=1:history_size=4:second_deadlock_stack=1"
ctest --test-dir "$BUILD" -L '^(cpp|kit)$' -j "$(nproc)" --output-on-failure
