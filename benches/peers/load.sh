#!/usr/bin/env bash
# `petal setup` until all is durable, beside fio writing as many bytes to the same disk: 1 MiB at a
# time, direct, one fsync at the end.
#
#   [PLACE=/var/tmp] [ROUNDS=5] [GIB=2] benches/peers/load.sh
#
# Operations are bytes of the data set, and their rate is until they are durable (common.sh).
# PostgreSQL: one and two schemas, as initdb left it but for max_wal_size=8GB, and with
# wal_level=minimal. With a log, rows are durable by it, and their blocks are written later. Needs root or an
# ordinary user, PostgreSQL's programs, fio, jq, and room for twice GIB.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

programs=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
[ "$(id -u)" != 0 ] || chown postgres "$folder"

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
