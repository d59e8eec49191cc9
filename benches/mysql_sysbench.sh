#!/usr/bin/env bash
# petal (LOOP=server, set and client) beside sysbench doing the same prepared range SELECT on the same
# cached table, interleaved: processor microseconds of client and server together per row visited, less
# what a run of one operation costs. Needs MariaDB's programs and sysbench.
#
#   benches/mysql_sysbench.sh [ROUNDS=3] [ROWS_VISITED=400000]
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-3} visited=${2:-400000}
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

# Processor seconds of client and server for so many operations: $1 work unit, $2 variant, $3 operations.
cost() {
    local before client TIMEFORMAT='%U %S'
    before=$(server_ticks)
    if [ "$2" = sysbench ]; then
        client=$({ time sysbench "$folder/range.lua" --db-driver=mysql --mysql-socket="$folder/s.sock" \
            --mysql-user=root --mysql-db=bench --threads=1 --time=0 --events="$3" \
            --rand-type=uniform --unit="$1" run >"$folder/out" 2>"$folder/err"; } 2>&1)
    else
        client=$({ time "$petal" -q run -s 1 -t 1 --update-pct 0 --work-unit "$1" --loop "$2" \
            --work-loop "$3" --run-time 600 --db "$url" --out "$folder/results" \
            --no-os-perf-data TRUE --json >"$folder/out" 2>"$folder/err"; } 2>&1)
    fi
    echo "$client $(($(server_ticks) - before))" |
        awk -v hz="$(getconf CLK_TCK)" '{print $1 + $2 + $3 / hz}'
}

"$petal" -q run -s 1 -t 1 --update-pct 0 --run-time 1 --warm-up cache --db "$url" \
    --out "$folder/results" --no-os-perf-data TRUE --json >/dev/null 2>&1
printf '%5s  %-8s %26s %10s\n' unit variant 'processor us per row' '(median)'
for unit in 1 8 64 255; do
    operations=$((visited / unit))
    [ "$unit" != 1 ] || operations=$((visited / 4))
    for round in $(seq "$rounds"); do
        for variant in server set sysbench client; do
            # Less what a run of one operation costs: starting, preparing, reporting.
            echo "$(cost "$unit" "$variant" "$operations") $(cost "$unit" "$variant" 1)" |
                awk -v rows=$((operations * unit)) '{printf "%.2f\n", ($1 - $2) * 1e6 / rows}' \
                    >>"$folder/$unit-$variant"
        done
    done
    for variant in server set sysbench client; do
        median=$(sort -n "$folder/$unit-$variant" | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}')
        printf '%5s  %-8s %26s %10s\n' "$unit" "$variant" "$(xargs <"$folder/$unit-$variant")" "$median"
    done
done
