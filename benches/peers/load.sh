#!/usr/bin/env bash
# `petal setup` until all is durable, beside fio writing as many bytes to the same disk: 1 MiB at a
# time, direct, one fsync at the end.
#
#   [PLACE=/var/tmp] [ROUNDS=5] [GIB=2] benches/peers/load.sh
#
# operations are bytes of the data set: the blocks that were asked for, once, without the log's bytes;
# their rate is until they are durable, by each program's own clock. What petal does afterwards, reading
# all of it back as its proof above all, is in its processor time.
# PostgreSQL: one and two schemas, as initdb left it but for max_wal_size=8GB, and with
# wal_level=minimal. A checkpoint is part of `petal setup`. Needs root or an ordinary user, PostgreSQL's
# programs, fio, jq, and room for twice GIB.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

gib=${GIB:-2}
programs=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
[ "$(id -u)" != 0 ] || chown postgres "$folder"

# rate SECONDS COMMAND...: bytes a second and processor microseconds a byte, of the command and of the
# server. SECONDS prints the command's own seconds until all was durable.
rate() {
    local client ticks=0 after=0
    [ ${#servers[@]} = 0 ] || ticks=$(processor_s "${servers[0]}")
    client=$(timed "${@:2}")
    sleep 0.5
    [ ${#servers[@]} = 0 ] || after=$(processor_s "${servers[0]}")
    echo "$((gib << 30)) $($1) $client $after $ticks" |
        awk '{print $1 / $2, ($3 + $4 - $5) * 1e6 / $1}'
}
petal_durable() { awk '/^rows and indexes durable after/ {print $6}' "$folder/out"; }
petal_load() {
    "$petal" -q drop --db "$target" >/dev/null 2>&1 || true
    rate petal_durable "$petal" setup -s "$schemas" --scale $((gib * 1024 / schemas))M \
        --scan-table-sz 0 --db "$target"
}
fio_durable() { jq '.jobs[0].write.runtime / 1000' "$folder/out"; }
fio_write() {
    rm -f "$folder/fio.dat"
    rate fio_durable fio --name=x --filename="$folder/fio.dat" --rw=write --bs=1m --size="${gib}G" \
        --direct=1 --ioengine=io_uring --iodepth=8 --end_fsync=1 --output-format=json
    rm -f "$folder/fio.dat"
}

for schemas in 1 4; do
    target=sqlite:$folder/data.db
    in_turn "load: SQLite, $schemas schemas" fio petal_load fio_write
    "$petal" -q drop --db "$target" >/dev/null
done
schemas=1 target="device:$folder/data.dat?log=1M"
in_turn "load: device" fio petal_load fio_write
"$petal" -q drop --db "$target" >/dev/null

as postgres "$programs/initdb" -N -A trust -U petal -D "$folder/data" >/dev/null
target="postgres://petal@/postgres?host=$folder"
for level in replica minimal; do
    as postgres "$programs/pg_ctl" -D "$folder/data" -w -l "$folder/log" start -o "-k $folder \
        -c listen_addresses= -c max_wal_size=8GB -c wal_level=$level \
        $([ $level = replica ] || echo -c max_wal_senders=0)" >/dev/null
    servers=("$(head -1 "$folder/data/postmaster.pid")")
    for schemas in 1 2; do
        in_turn "load: PostgreSQL, wal_level=$level, $schemas schemas" fio petal_load fio_write
    done
    as postgres "$programs/pg_ctl" -D "$folder/data" -m fast stop >/dev/null
    servers=()
done
shown
