#!/usr/bin/env bash
# The fuzz targets under libFuzzer, one after another. Needs a nightly Rust, a
# C++ compiler and cargo-fuzz (cargo install cargo-fuzz), and installs nothing.
# Ends with a line for each target: executions, seconds, edges reached, findings.
#
#   scripts/fuzz.sh                    every target, a minute each
#   scripts/fuzz.sh SECONDS            every target, that long each
#   scripts/fuzz.sh SECONDS TARGET...  these
#
# What is found is in fuzz/artifacts/TARGET; inputs that reach something new are
# kept beside what cargo builds, not in fuzz/corpus. Status 0: nothing was found.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
exec </dev/null

{
seconds=${1-60}
case $seconds in
    -h | --help)
        sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "${BASH_SOURCE[0]}"
        exit
        ;;
    '' | *[!0-9]*) die "not a number of seconds: $seconds; see scripts/fuzz.sh --help" ;;
esac
(($# == 0)) || shift
cargo +nightly fuzz --version >/dev/null 2>&1 ||
    die "a nightly Rust and cargo-fuzz are needed: cargo install cargo-fuzz"
cd "$root"
targets=("$@")
(($# > 0)) || mapfile -t targets < <(cargo +nightly fuzz list)
grown=$(target_dir)/fuzz-corpus
logs=$(target_dir)/fuzz-logs
mkdir -p "$logs"

# Without a sanitizer: what is fuzzed has no unsafe code (forbidden, by lint), and
# runs several times as often. Overflows and assertions are checked.
cargo +nightly fuzz build -s none

figure() { sed -n "s/^stat::$1: *//p" "$2" | tail -n 1; }

lines=()
found=0
for target in "${targets[@]}"; do
    mkdir -p "$grown/$target"
    seeds=("$grown/$target" "fuzz/corpus/$target")
    [[ $target != frame ]] || seeds+=(protocol/testdata)
    log=$logs/$target
    status=0
    echo "== $target, $seconds s"
    cargo +nightly fuzz run -s none "$target" "${seeds[@]}" -- \
        "-max_total_time=$seconds" "-dict=fuzz/dictionaries/$target.dict" -max_len=4096 \
        -timeout=60 -rss_limit_mb=512 -print_final_stats=1 >"$log" 2>&1 || status=$?
    executions=$(figure number_of_executed_units "$log")
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    taken=$(sed -n 's/^Done [0-9]* runs in \([0-9]*\) second.*/\1/p' "$log" | tail -n 1)
    finding=none
    if ((status != 0)); then
        ((found += 1))
        finding=$(sed -n 's/^.*Test unit written to //p' "$log" | tail -n 1)
        [[ -n $finding ]] || finding="status $status, see $log"
        sed -n '/panicked at/,+6p' "$log" | head -n 20
    fi
    line="$target: ${executions:-0} executions, ${taken:-less than $seconds} s, ${edges:-0} edges, found: $finding"
    echo "$line"
    lines+=("$line")
done

printf '\n== fuzzed\n'
printf '%s\n' "${lines[@]}"
((found == 0))
exit
}
