#!/usr/bin/env bash
# petal beside pgbench running the same prepared SELECT on the same table of a private PostgreSQL
# server (own folder, socket and user), and beside pgio where its folder is given.
#
#   [ROUNDS=5] [SECONDS_EACH=4] [STARTS=2] [UNITS="8 64 255"] \
#       benches/peers/postgres.sh cached|physical [PGIO_FOLDER]
#
# cached: 1 GiB in shared_buffers, one session; operations are rows visited. The time of a cached block
#   moves threefold between starts of one server, with where its memory lies: both programs run on each
#   of STARTS starts.
# physical: one session on each of 4 and four on each of 8 schemas of 1 GiB, shared_buffers of 64 MiB, no
#   prefetch, and the memory of the server with its page cache held to 600 MiB by a control group (which takes
#   root, and the memory controller); operations are the blocks that the server says it read. With PREFETCH=64,
#   four sessions beside fio at depth 64 on the same files: operations are the blocks that the device served.
# pgio: its own tables of the same size and number beside petal's, after a VACUUM ANALYZE, so that its runs write
#   no hint bits. Cached, operations are the blocks that the server counted, hits and reads, which are the
#   same for petal's runs beside it; physical, the blocks it read: as the server plans it, a bitmap scan
#   that reads its blocks in their order and one ahead, and by an index scan, as petal reads.
#
# Needs root or an ordinary user, PostgreSQL's programs, fio, jq, and room for 20 GiB (30 with pgio).
part=${1:-}
pgio=${2:-}
case $part in
    cached | physical) ;;
    *) echo "benches/peers/postgres.sh cached|physical [PGIO_FOLDER]" >&2 && exit 2 ;;
esac
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

programs=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
[ "$(id -u)" != 0 ] || chown postgres "$folder"
group=/sys/fs/cgroup/petal-peers-$$
export PGHOST=$folder PGUSER=petal PGDATABASE=postgres
url="postgres://petal@/postgres?host=$folder"

# start SETTINGS...: a server; its processes are members of the control group, where there is one.
start() {
    as postgres "$programs/pg_ctl" -D "$folder/data" -w -l "$folder/log" start \
        -o "-k $folder -c listen_addresses= -c max_wal_size=8GB $*" >/dev/null
    servers=("$(head -1 "$folder/data/postmaster.pid")")
}
stop() {
    as postgres "$programs/pg_ctl" -D "$folder/data" -m fast stop >/dev/null
    servers=()
}
query() { "$programs/psql" -qAt -c "$1"; }

# Of all databases.
blocks_read() {
    sleep 1.2 # The server adds a session's counts up to a second late.
    query "SELECT sum(blks_read) FROM pg_stat_database"
}

petal_select() { # --run-time or --work-loop
    petal_run -s "$schemas" -t "$threads" --update-pct 0 --work-unit "$unit" --loop "$loop" --prefetch "$prefetch" \
        --db "$url" --no-os-perf-data TRUE "$@"
}
pgbench_select() { # -T or -t
    local jobs=() schema
    for schema in $(seq "$schemas"); do
        cat >"$folder/select$schema.sql" <<SQL
\set first random(1, $scale - $unit + 1)
SELECT count(c2) FROM (SELECT c2 FROM petal$schema.cf1
    WHERE custid BETWEEN :first AND :first + $unit - 1 OFFSET 0) AS visited;
SQL
        jobs+=(-f "$folder/select$schema.sql")
    done
    PGOPTIONS="-c plan_cache_mode=force_generic_plan -c enable_bitmapscan=off -c jit=off" \
        timed "$programs/pgbench" -n -M prepared -c $((schemas * threads)) -j 1 "${jobs[@]}" "$@"
}

idle_costs() {
    petal_idle=$(idle petal_select --work-loop 1)
    pgbench_idle=$(idle pgbench_select -t 1)
    [ -z "$pgio" ] || pgio_idle=$(idle runit 0)
}

# Rows visited, as each program counts its own operations.
petal_cached() {
    used petal_select --run-time "$seconds"
    cost "$(jq ".ops.select * $unit" "$folder/out")" "$petal_idle"
}
pgbench_cached() {
    used pgbench_select -T "$seconds"
    cost "$(awk -v unit="$unit" '/^number of transactions actually/ {sub("/.*", ""); print $NF * unit}' \
        "$folder/out")" "$pgbench_idle"
}
# Blocks that the server read, by its own count.
petal_physical() {
    local before=$(blocks_read)
    used petal_select --run-time "$seconds"
    cost $(($(blocks_read) - before)) "$petal_idle"
}
pgbench_physical() {
    local before=$(blocks_read)
    used pgbench_select -T "$seconds"
    cost $(($(blocks_read) - before)) "$pgbench_idle"
}
# Blocks that the device beneath the server's files has served; nothing where no such device is seen.
blocks_served() {
    awk -v device="$(findmnt -n -o MAJ:MIN -T "$folder" | xargs)" '$1 ":" $2 == device {print int($6 / 16)}' /proc/diskstats
}
petal_served() {
    local before=$(blocks_served)
    used petal_select --run-time "$seconds"
    cost $(($(blocks_served) - before)) "$petal_idle"
}
fio_served() {
    local before=$(blocks_served) files=$(query "SELECT string_agg('$folder/data/' ||
        pg_relation_filepath(format('petal%s.cf1', number)::regclass), ':')
        FROM generate_series(1, $schemas) AS number")
    # What a server does meanwhile is not fio's.
    spent=$(timed fio --name=x --filename="$files" --rw=randread --bs=8k --direct=1 --ioengine=io_uring \
        --iodepth=64 --norandommap --time_based --runtime="$seconds")
    cost $(($(blocks_served) - before)) 0
}

# pgio, for a reader who has it: its own tables, its own loop, measured as blocks that the server visited.
visited() { sleep 1.2; query "SELECT sum(blks_hit + blks_read) FROM pg_stat_database"; }
pgio_conf() { # seconds
    cat >"$folder/pgio/pgio.conf" <<CONF
UPDATE_PCT=0
RUN_TIME=$1
NUM_SCHEMAS=$schemas
NUM_THREADS=$threads
WORK_UNIT=$unit
UPDATE_WORK_UNIT=8
SCALE=$scale
DBNAME=$PGDATABASE
CONNECT_STRING="$PGDATABASE"
CREATE_BASE_TABLE=TRUE
CONF
}
pgio_setup() {
    pgio_conf 0
    (cd "$folder/pgio" && bash ./setup.sh >"$folder/pgio.log" 2>&1)
    query "VACUUM ANALYZE"
}
petal_visited() {
    local before=$(visited)
    used petal_select --run-time "$seconds"
    cost $(($(visited) - before)) "$petal_idle"
}
runit() { # seconds
    pgio_conf "$1"
    (cd "$folder/pgio" && timed bash ./runit.sh)
}
pgio_visited() {
    local before=$(visited)
    used runit "$seconds"
    cost $(($(visited) - before)) "$pgio_idle"
}
# pgio starts its sessions one after the other, and each ends by a clock of its own: its seconds are those
# from the first one's start to the last one's end.
pgio_physical() {
    local before=$(blocks_read)
    (sleep "$(awk "BEGIN {print $seconds / 2}")" && query "SELECT $seconds + extract(epoch FROM max(query_start) - min(query_start))
        FROM pg_stat_activity WHERE query LIKE 'SELECT * FROM mypgio(%'") >"$folder/span" &
    used runit "$seconds"
    wait $!
    seconds=$(cat "$folder/span") cost $(($(blocks_read) - before)) "$pgio_idle"
}
pgio_by_index() { PGOPTIONS="-c enable_bitmapscan=off" pgio_physical; }

scale=131072 prefetch=0
as postgres "$programs/initdb" -N -A trust -U petal -D "$folder/data" >/dev/null
[ -z "$pgio" ] || cp -r "$pgio" "$folder/pgio"

cached() {
    schemas=1 threads=1
    start -c shared_buffers=1500MB
    "$petal" -q setup -s 1 --scale $scale --db "$url" >/dev/null
    [ -z "$pgio" ] || unit=8 pgio_setup
    stop
    for _ in $(seq "${STARTS:-2}"); do
        start -c shared_buffers=3GB
        loop=server unit=255
        petal_run -s 1 -t 1 --update-pct 0 --run-time 1 --warm-up cache --db "$url" >/dev/null
        [ -z "$pgio" ] || runit 5 >/dev/null
        for unit in ${UNITS:-8 64 255}; do
            for loop in server set client; do
                idle_costs
                in_turn "PostgreSQL cached: LOOP=$loop WORK_UNIT=$unit" pgbench petal_cached pgbench_cached
                [ -z "$pgio" ] || [ $loop = client ] ||
                    in_turn "PostgreSQL cached: LOOP=$loop WORK_UNIT=$unit" pgio petal_visited pgio_visited
            done
        done
        stop
    done
}

# held MIB: a control group of so much memory that holds this script, and so the servers it starts.
held() {
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        echo +memory >/sys/fs/cgroup/cgroup.subtree_control && mkdir "$group" &&
            echo $(($1 << 20)) >"$group/memory.max"
    else
        group=/sys/fs/cgroup/memory/petal-peers-$$
        mkdir "$group" && echo $(($1 << 20)) >"$group/memory.limit_in_bytes"
    fi 2>>"$folder/err"
}
# Only the server's processes, whose parent starts in it; the group goes when they have.
start_held() { (echo $BASHPID >"$group/cgroup.procs" && start -c shared_buffers=64MB "$@"); }

physical() {
    held 600 || {
        echo "no control group for memory can be made here: PostgreSQL's physical reads are left out" >&2
        return
    }
    start -c shared_buffers=64MB -c wal_level=minimal -c max_wal_senders=0
    "$petal" -q setup -s 8 --scale $scale --db "$url" >/dev/null
    schemas=8 threads=2 unit=64
    [ -z "$pgio" ] || pgio_setup
    stop
    # What the load left in the page cache is charged to nobody in the group.
    sync
    find "$folder/data" -type f -size +1M -exec dd if={} iflag=nocache count=0 status=none \;
    start_held
    servers=("$(head -1 "$folder/data/postmaster.pid")")
    for threads in 1 4; do
        schemas=$((threads == 1 ? 4 : 8))
        for loop in server client; do
            idle_costs
            test="PostgreSQL physical: LOOP=$loop, $((schemas * threads)) sessions"
            in_turn "$test" pgbench petal_physical pgbench_physical
            [ -z "$pgio" ] || [ $loop = client ] || {
                in_turn "$test" pgio petal_physical pgio_physical
                in_turn "$test" "pgio by index scans" petal_physical pgio_by_index
            }
        done
    done
    schemas=4 threads=1 loop=server prefetch=64
    for unit in 64 255; do
        [ -n "$(blocks_served)" ] || {
            echo "the device beneath $folder is not seen here: PREFETCH=64 beside fio is left out" >&2
            break
        }
        petal_idle=$(idle petal_select --work-loop 1)
        in_turn "PostgreSQL physical: PREFETCH=64 WORK_UNIT=$unit, 4 sessions" fio petal_served fio_served
    done
    stop
    rmdir "$group" || true
}
$part
shown
