#!/usr/bin/env bash
# fuzz_readers.sh BUILD SECONDS: builds the libFuzzer programs with clang and runs each for so long, from the seeds of
# tests/mutation.
set -euo pipefail
BUILD="$1" SECONDS_EACH="$2"
bash tools/install_clang.sh
[ -f "$BUILD/build.ninja" ] || cmake --preset libfuzzer
ninja -C "$BUILD" --quiet fuzz_readers mutation_campaign
status=0
for program in "$BUILD"/tests/mutation/fuzz_*; do
  reader="${program##*/fuzz_}"
  mkdir -p "out/fuzz/$reader" "out/fuzz/$reader-found"
  "$BUILD/tests/mutation/mutation_campaign" --reader "$reader" --write-seeds "out/fuzz/$reader"
  "$program" "out/fuzz/$reader" -max_total_time="$SECONDS_EACH" -timeout=10 -rss_limit_mb=4096 -max_len=65536 \
    -print_final_stats=1 -artifact_prefix="out/fuzz/$reader-found/" > "out/fuzz/$reader.log" 2>&1 || { status=1; echo "$reader: a finding, see out/fuzz/$reader.log"; }
  echo "$reader: $(grep -m1 number_of_executed_units "out/fuzz/$reader.log" || tail -1 "out/fuzz/$reader.log")"
done
exit $status
