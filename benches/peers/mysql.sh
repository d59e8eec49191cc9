#!/usr/bin/env bash
# petal on a private MariaDB server (own folder, socket and user) beside sysbench running the same prepared
# SELECT on the same table, and beside fio on the same disk.
#
#   [ROUNDS=5] [SECONDS_EACH=4] [UNITS="1 8 64 255"] [LOOPS="server set client"] [PLACE=/var/tmp] \
#       benches/peers/mysql.sh
#
# cached: 512 MiB in the buffer pool, one session, by a unix socket and for LOOP=client by TCP, too;
#   operations are rows visited.
# load: `petal setup` of two schemas of 1 GiB, redo log and doublewrite on, with a buffer pool that holds
#   them and with one of an eighth (common.sh).
# physical: the server's reads of a run that only reads, with a buffer pool of an eighth of the data, and
#   fio's random reads of 16 KiB of the same files by as many threads (pread).
#
# Needs root or an ordinary user, MariaDB's programs, sysbench, fio, jq, and room for 7 GiB.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ "$(id -u)" != 0 ] || chown mysql "$folder"
socket="mysql://root@localhost/bench?socket=$folder/s.sock"
port=$((20000 + RANDOM % 10000))
url=$socket target=$socket

start() { # settings
    as mysql mariadbd --no-defaults --datadir="$folder/data" --socket="$folder/s.sock" \
        --pid-file="$folder/pid" --tmpdir="$folder" --bind-address=127.0.0.1 --port=$port \
        --innodb-flush-method=O_DIRECT --performance-schema=ON --innodb-io-capacity=20000 \
        --innodb-io-capacity-max=40000 "$@" >"$folder/log" 2>&1 &
    until mariadb --no-defaults -u root -S "$folder/s.sock" \
        -e 'CREATE DATABASE IF NOT EXISTS bench' 2>/dev/null; do sleep 0.2; done
    servers=("$(cat "$folder/pid")")
}
stop() {
    mariadb-admin --no-defaults -u root -S "$folder/s.sock" shutdown
    servers=()
    wait
}

scale=32768 # 512 MiB at 16 KiB
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
    local first = sysbench.rand.uniform(1, $scale - sysbench.opt.unit + 1)
    low:set(first)
    high:set(first + sysbench.opt.unit - 1)
    statement:execute():free()
end
LUA

petal_select() { # --run-time or --work-loop
    petal_run -s "$schemas" -t "$threads" --update-pct 0 --work-unit "$unit" --loop "$loop" --db "$url" \
        --no-os-perf-data TRUE "$@"
}
sysbench_select() { # --time or --events
    timed sysbench "$folder/range.lua" --db-driver=mysql "${way[@]}" \
        --mysql-user=root --mysql-db=bench --threads=1 --rand-type=uniform --unit="$unit" "$@" run
}
petal_cached() {
    used petal_select --run-time "$seconds"
    cost "$(jq ".ops.select * $unit" "$folder/out")" "$petal_idle"
}
sysbench_cached() {
    used sysbench_select --time="$seconds" --events=0
    cost "$(awk -v unit="$unit" '/total number of events:/ {print $NF * unit}' "$folder/out")" \
        "$sysbench_idle"
}

petal_read() {
    used petal_select --run-time "$seconds"
    cost "$(jq '.per_second.physical_read_requests * .elapsed_s' "$folder/out")" "$petal_idle"
}
fio_read() {
    local files=$folder/data/bench/petal1_cf1.ibd:$folder/data/bench/petal2_cf1.ibd
    used timed fio --name=x --filename="$files" --rw=randread --bs=16k --direct=1 --ioengine=psync \
        --thread --numjobs=$((2 * threads)) --group_reporting --norandommap --time_based \
        --runtime="$seconds" --output-format=json
    cost "$(jq '.jobs[0].read.total_ios' "$folder/out")" 0
}

as mysql mariadb-install-db --no-defaults --datadir="$folder/data" --tmpdir="$folder" \
    --auth-root-authentication-method=normal --skip-test-db >/dev/null
start --innodb-buffer-pool-size=1500M --innodb-log-file-size=512M
"$petal" -q setup -s 1 --scale $scale --db "$url" >/dev/null
schemas=1 threads=1 unit=64 loop=server
petal_run -s 1 -t 1 --update-pct 0 --run-time 1 --warm-up cache --db "$url" >/dev/null
cached() { # by what, if not by the socket
    petal_idle=$(idle petal_select --work-loop 1)
    sysbench_idle=$(idle sysbench_select --time=0 --events=1)
    in_turn "MariaDB cached: LOOP=$loop$* WORK_UNIT=$unit" sysbench petal_cached sysbench_cached
}
for unit in ${UNITS:-1 8 64 255}; do
    way=(--mysql-socket="$folder/s.sock")
    for loop in ${LOOPS:-server set client}; do cached; done
    loop=client url=mysql://root@127.0.0.1:$port/bench
    way=(--mysql-host=127.0.0.1 --mysql-port=$port)
    cached " by TCP"
    url=$socket
done
"$petal" -q drop --db "$url" >/dev/null
stop
schemas=2 unit=64 loop=server
for pool in 4G 256M; do
    start --innodb-buffer-pool-size=$pool --innodb-log-file-size=2G --innodb-adaptive-hash-index=OFF
    in_turn "MariaDB load: $schemas schemas, buffer pool $pool" fio petal_load fio_write
    [ $pool = 256M ] || { "$petal" -q drop --db "$url" >/dev/null && stop; }
done
for threads in 2 8; do
    petal_idle=$(idle petal_select --work-loop 1)
    in_turn "MariaDB physical: $((2 * threads)) sessions" fio petal_read fio_read
done
shown
