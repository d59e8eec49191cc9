#!/bin/sh
# Runs the conformance suite many times for each real engine, under load, and writes the table of
# docs/testing.md. Loops keep the processors busy meanwhile. About 20 minutes for an engine:
#   sh scripts/repeat-conformance.sh [REPEATS [TARGET...]]     LOOPS: another number of busy loops
# The table keeps the last result of each target. A failed run leaves its output in target/conformance.
set -eu
repeats=${1:-20}
[ $# -gt 0 ] && shift
cd "$(dirname "$0")/.."
page=docs/testing.md
results=target/conformance
mkdir -p "$results"
targets=${*:-"sqlite_direct sqlite_buffered redb_direct redb_buffered lmdb_mapped scripted_files \
    postgres_server postgres_client mysql_server mysql_client device_direct device_pread"}
program=${PROGRAM:-$(cargo test --locked --test integration --no-run 2>&1 | sed -n 's/.*Executable .*(\(.*\))$/\1/p')}

loops=""
stop() { for loop in $loops; do kill "$loop" 2>/dev/null || :; done; }
trap stop EXIT
trap 'exit 1' INT TERM
for _ in $(seq "${LOOPS:-$(nproc)}"); do
    sh -c 'while :; do :; done' &
    loops="$loops $!"
done

for target in $targets; do
    runs=0 cases=0 failures=0 begin=$(date +%s) load=0
    while [ "$runs" -lt "$repeats" ]; do
        output=$results/$target.out
        "$program" "conformance::${target}::" --test-threads=4 >"$output" 2>&1 || cp "$output" "$results/$target-$runs.failed"
        line=$(grep '^test result' "$output" || echo "test result: FAILED. 0 passed; 1 failed;")
        passed=$(echo "$line" | sed 's/.* \([0-9]*\) passed.*/\1/')
        failed=$(echo "$line" | sed 's/.* \([0-9]*\) failed.*/\1/')
        cases=$((passed + failed)) failures=$((failures + failed)) runs=$((runs + 1))
        load=$(awk -v sum="$load" '{ print sum + $1 }' /proc/loadavg)
    done
    echo "$target $runs $cases $failures $((($(date +%s) - begin) / runs)) $(echo "$load $runs" | awk '{ printf "%.1f", $1 / $2 }') $(date -u +%F)" >>"$results/results"
done

{
    sed '/<!-- Repeats: written by a script. -->/q' "$page"
    printf '| target | cases | repeats | failures | seconds a repeat | load average | day |\n|---|---|---|---|---|---|---|\n'
    # The last line of each target, in the order in which they came first.
    awk '
        !($1 in last) { order[++n] = $1 }
        { last[$1] = $0 }
        END {
            for (i = 1; i <= n; i++) {
                split(last[order[i]], it)
                printf "| `%s` | %s | %s | %s | %s | %s | %s |\n", it[1], it[3], it[2], it[4], it[5], it[6], it[7]
            }
        }' "$results/results"
    sed -n '/<!-- End of the repeats. -->/,$p' "$page"
} >"$results/page"
cp "$results/page" "$page"
