#!/usr/bin/env bash
# petal on MariaDB beside fio on the same disk, interleaved.
#
#   benches/mysql_fio.sh [ROUNDS=3] [SECONDS=5] [SESSIONS="4 16"]
#
# load: `petal setup` of two schemas of 1 GiB, until rows and indexes are durable, redo log and doublewrite
#   on; fio writes as many bytes in order, 1 MiB each, and syncs. MB/s, and what the server wrote.
# read: the server's physical reads of a run that only reads, with a buffer pool of an eighth of the data,
#   and fio's random reads of 16 KiB of the same files by as many threads (pread). Requests a second.
#
# Needs MariaDB's programs, fio, jq, and room for 7 GiB.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-3} seconds=${2:-5} sessions=${3:-4 16}
petal=${PETAL:-target/release/petal}
[ -n "${PETAL:-}" ] || cargo build --release --locked -q
. benches/mysql_server.sh
start_server --innodb-buffer-pool-size=256M --innodb-log-file-size=2G --innodb-io-capacity=20000 \
    --innodb-io-capacity-max=40000 --innodb-adaptive-hash-index=OFF

fio_job() { fio --name=x --direct=1 --ioengine=psync --output-format=json "$@" 2>/dev/null; }
status() { # the server's counter $1
    mariadb --no-defaults -u root -S "$folder/s.sock" -N -B -e "SHOW GLOBAL STATUS LIKE '$1'" | cut -f2
}
written() { # bytes: pages, their doublewrite, log
    echo $((($(status Innodb_pages_written) + $(status Innodb_dblwr_pages_written)) * 16384 \
        + $(status Innodb_os_log_written)))
}

for round in $(seq "$rounds"); do
    before=$(written) ticks=$(server_ticks)
    "$petal" -q setup -s 2 --replace --scale 1G --scan-table-sz 0 --db "$url" >"$folder/out" 2>&1
    mbs=$(sed -n 's/^rows and indexes durable after .* s, \([0-9.]*\) MB\/s.*/\1/p' "$folder/out")
    bytes=$(($(written) - before)) ticks=$(($(server_ticks) - ticks))
    fio_mbs=$(fio_job --filename="$folder/fio" --rw=write --bs=1m --size=2g --end_fsync=1 |
        jq '.jobs[0].write.bw_bytes / 1e6')
    rm -f "$folder/fio"
    echo "$mbs $fio_mbs $bytes $ticks" | awk -v hz="$(getconf CLK_TCK)" '{
        printf "load: %s MB/s, fio %.0f MB/s (%.2f); the server wrote %.2f bytes and took %.1f ns " \
            "for each byte loaded\n", $1, $2, $1 / $2, $3 / 2^31, $4 / hz * 1e9 / 2^31}'
done

files=$folder/data/bench/petal1_cf1.ibd:$folder/data/bench/petal2_cf1.ibd
for count in $sessions; do
    for round in $(seq "$rounds"); do
        "$petal" -q run -s 2 -t $((count / 2)) --update-pct 0 --run-time "$seconds" --db "$url" \
            --out "$folder/results" --json >"$folder/out" 2>"$folder/err"
        reads=$(jq '.per_second.physical_read_requests' "$folder/out")
        fio_reads=$(fio_job --filename="$files" --rw=randread --bs=16k --numjobs="$count" --thread \
            --time_based --runtime="$seconds" --norandommap --group_reporting |
            jq '.jobs[0].read.iops')
        echo "$count $reads $fio_reads" |
            awk '{printf "read, %d sessions: %.0f/s, fio %.0f/s (%.2f)\n", $1, $2, $3, $2 / $3}'
    done
done
