#!/usr/bin/env bash
# What petal's own watching costs a run: petal with it beside petal without it.
#
#   [PLACE=/var/tmp] [ROUNDS=5] [SECONDS_EACH=4] benches/peers/watching.sh
#
# A data set on SQLite that its cache holds, one session, WORK_UNIT=1: the cheapest operations that a
# database does, some 50,000 and more a second, so that a cost for each would show. The ledger's rows are
# with UPDATEs, one in ten, without syncs (SYNCHRONOUS=OFF). Needs curl and jq, and room for 1 GiB.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

target="sqlite:$folder/data.db?cache=128M"
"$petal" -q setup -s 1 --scale 64M --scan-table-sz 0 --db "$target" >/dev/null

run() { # further arguments
    local cpu
    cpu=$(petal_run -s 1 -t 1 --work-unit 1 --update-pct "$updates" --warm-up cache \
        --run-time "$seconds" --db "$target$synchronous" "$@")
    jq -r --argjson cpu "$cpu" '(.ops.select + .ops.update) as $ops
        | [$ops / .elapsed_s, $cpu * 1e6 / $ops] | @tsv' "$folder/out"
}
bare() { run --no-os-perf-data TRUE; }
system() { run --no-os-perf-data FALSE; }
metrics() {
    (for _ in $(seq "$seconds"); do
        sleep 1
        curl -s http://127.0.0.1:19464/metrics >/dev/null || true
    done) &
    run --no-os-perf-data TRUE --metrics 127.0.0.1:19464
    wait $!
}
ledger() {
    rm -f "$folder/ledger"
    run --no-os-perf-data TRUE --ledger "$folder/ledger"
}
all() {
    rm -f "$folder/ledger"
    run --no-os-perf-data FALSE --ledger "$folder/ledger" --metrics 127.0.0.1:19464
}

updates=0 synchronous=""
in_turn "watching: the operating system, each second" "petal without" system bare
in_turn "watching: metrics, scraped each second" "petal without" metrics bare
updates=10 synchronous="&synchronous=OFF"
in_turn "watching: a ledger, UPDATE_PCT=10" "petal without" ledger bare
in_turn "watching: all of it, UPDATE_PCT=10" "petal without" all bare
shown
