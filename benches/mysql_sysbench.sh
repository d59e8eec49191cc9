#!/usr/bin/env bash
# petal (LOOP=server, set and client) beside sysbench doing the same prepared range SELECT on the same
# cached table, interleaved: operations per second, and processor microseconds of client and server
# together per row visited. Needs MariaDB's programs and sysbench.
#
#   benches/mysql_sysbench.sh [ROUNDS=3] [SECONDS=5]
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-3} seconds=${2:-5}
petal=${PETAL:-target/release/petal}
rows=32768 # 512 MiB at 16 KiB
. benches/mysql_server.sh
start_server --innodb-buffer-pool-size=1500M --innodb-log-file-size=512M \
    --innodb-io-capacity=5000 --innodb-io-capacity-max=20000
[ -n "${PETAL:-}" ] || cargo build --release --locked -q
"$petal" -q setup -s 1 --scale $rows --db "$url" >/dev/null

cat >"$folder/range.lua" <<LUA
sysbench.cmdline.options = {unit = {"rows of each SELECT", 8}}
function thread_init()
    connection = sysbench.sql.driver():connect()
    statement = connection:prepare("SELECT COUNT(c2) FROM petal1_cf1 FORCE INDEX (petal_custid) " ..
        "WHERE custid BETWEEN ? AND ?")
    low = statement:bind_create(sysbench.sql.type.BIGINT)
    high = statement:bind_create(sysbench.sql.type.BIGINT)
    statement:bind_param(low, high)
end
function event()
    local first = sysbench.rand.uniform(1, $rows - sysbench.opt.unit + 1)
    low:set(first)
    high:set(first + sysbench.opt.unit - 1)
    statement:execute():free()
end
LUA

# $1 work unit, $2 variant: prints operations/s and processor microseconds per row.
measure() {
    local unit=$1 variant=$2 before ticks client ops
    before=$(server_ticks)
    TIMEFORMAT='%U %S'
    if [ "$variant" = sysbench ]; then
        client=$({ time sysbench "$folder/range.lua" --db-driver=mysql --mysql-socket="$folder/s.sock" \
            --mysql-user=root --mysql-db=bench --threads=1 --time="$seconds" --events=0 \
            --rand-type=uniform --unit="$unit" run >"$folder/out" 2>"$folder/err"; } 2>&1)
        ops=$(awk '/total number of events:/ {print $NF}' "$folder/out")
    else
        client=$({ time "$petal" -q run -s 1 -t 1 --update-pct 0 --work-unit "$unit" --loop "$variant" \
            --run-time "$seconds" --db "$url" --out "$folder/results" --no-os-perf-data TRUE --json \
            >"$folder/out" 2>"$folder/err"; } 2>&1)
        ops=$(tr -d ' \n' <"$folder/out" | sed 's/.*"ops":{"select":\([0-9]*\).*/\1/')
    fi
    ticks=$(($(server_ticks) - before))
    echo "$ops $client $ticks" | awk -v unit="$unit" -v seconds="$seconds" -v hz="$(getconf CLK_TCK)" \
        '{printf "%.0f %.3f\n", $1 / seconds, ($2 + $3 + $4 / hz) * 1e6 / ($1 * unit)}'
}

"$petal" -q run -s 1 -t 1 --update-pct 0 --run-time 1 --warm-up cache --db "$url" \
    --out "$folder/results" --no-os-perf-data TRUE --json >/dev/null 2>&1
printf '%5s  %-8s %14s %24s\n' unit variant 'operations/s' 'processor us per row'
for unit in 1 8 64 255; do
    for round in $(seq "$rounds"); do
        for variant in server set sysbench client; do
            measure "$unit" "$variant" >>"$folder/$unit-$variant"
        done
    done
    for variant in server set sysbench client; do
        median() { sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
        ops=$(cut -d' ' -f1 "$folder/$unit-$variant" | median)
        cost=$(cut -d' ' -f2 "$folder/$unit-$variant" | median)
        printf '%5s  %-8s %14s %24s\n' "$unit" "$variant" "$ops" "$cost"
    done
done
