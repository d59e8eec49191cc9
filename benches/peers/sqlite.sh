#!/usr/bin/env bash
# petal's reads through SQLite, past the page cache, beside fio's psync engine on the same file with as
# many threads: requests a second and processor time a request.
#
#   [PLACE=/var/tmp] [ROUNDS=5] [SECONDS_EACH=4] [SESSIONS="1 16"] benches/peers/sqlite.sh
#
# 8 KiB, O_DIRECT, one request at a time a session. Needs fio and jq, and room for 4 GiB.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

data=$folder/data.db
target=sqlite:$data
"$petal" -q setup -s 1 --scale 3G --scan-table-sz 0 --db "$target" >/dev/null

reads() { # --run-time or --work-loop
    petal_run -s 1 -t "$sessions" --update-pct 0 --work-unit 64 --db "$target" "$@"
}
petal_read() {
    local cpu
    cpu=$(reads --run-time "$seconds")
    jq -r --argjson cpu "$cpu" --argjson idle "$petal_idle" '.per_second.physical_read_requests as $iops
        | [$iops, ($cpu - $idle) * 1e6 / ($iops * .elapsed_s), .io_latency_us.read.p99] | @tsv' \
        "$folder/out"
}
fio_read() {
    local cpu
    cpu=$(timed fio --name=x --filename="$data/petal1.db" --rw=randread --bs=8k --direct=1 \
        --ioengine=psync --thread --numjobs="$sessions" --group_reporting --norandommap \
        --randrepeat=0 --lat_percentiles=1 --clat_percentiles=0 --time_based --runtime="$seconds" \
        --output-format=json)
    jq -r --argjson cpu "$cpu" '.jobs[0].read | [.iops, $cpu * 1e6 / .total_ios,
        .lat_ns.percentile["99.000000"] / 1000] | @tsv' "$folder/out"
}

for sessions in ${SESSIONS:-1 16}; do
    # Starting, connecting, settling and reporting: a run of one operation a session.
    petal_idle=$(reads --work-loop 1)
    in_turn "SQLite direct: reads, $sessions sessions" fio petal_read fio_read
done
shown
