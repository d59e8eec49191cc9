#!/usr/bin/env bash
# petal (LOOP=server and LOOP=client) beside pgbench running the same prepared SELECT, and beside a
# plain loop in a PL/pgSQL function that builds each SELECT's text, on the same cached table,
# interleaved: operations per second, and processor microseconds of client and server together per
# block visited. Starts a private PostgreSQL server (own folder, socket and user) and
# removes it. Needs root or an ordinary user, and PostgreSQL's programs.
#
#   benches/postgres_pgbench.sh [ROUNDS=3] [SECONDS=5]
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-3} seconds=${2:-5}
programs=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
petal=target/release/petal
rows=131072 # 1 GiB at 8 KiB
folder=$(mktemp -d /var/tmp/petal-bench-XXXXXX)
chmod 755 "$folder"
as=() && [ "$(id -u)" = 0 ] && { chown postgres "$folder"; as=(runuser -u postgres --); }
stop() { "${as[@]}" "$programs/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1; rm -rf "$folder"; }
trap stop EXIT

"${as[@]}" "$programs/initdb" -N -A trust -U petal -D "$folder/data" >/dev/null
"${as[@]}" "$programs/pg_ctl" -D "$folder/data" -w -l "$folder/log" start \
    -o "-k $folder -c listen_addresses= -c shared_buffers=1500MB -c max_wal_size=4GB" >/dev/null
cargo build --release --locked -q
url="postgres://petal@/postgres?host=$folder"
"$petal" -q setup -s 1 --scale $rows --db "$url" >/dev/null
postmaster=$(head -1 "$folder/data/postmaster.pid")

# The loop as one would write it at first: random start, the statement's text, EXECUTE.
"$programs/psql" -q -h "$folder" -U petal postgres <<'SQL'
CREATE FUNCTION plain_loop(unit integer, rows integer, seconds numeric) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    until CONSTANT timestamptz := clock_timestamp() + seconds * interval '1 second';
    first integer;
    counted bigint;
    operations bigint := 0;
BEGIN
    WHILE clock_timestamp() < until LOOP
        first := 1 + floor(random() * (rows - unit + 1));
        EXECUTE format('SELECT COUNT(c2) FROM petal1.cf1 WHERE custid BETWEEN %s AND %s',
                       first, first + unit - 1) INTO counted;
        operations := operations + 1;
    END LOOP;
    RETURN operations;
END $$;
SQL

# Processor ticks of server processes that have ended: sessions, once they disconnect.
server_ticks() { awk '{print $16 + $17}' "/proc/$postmaster/stat"; }

# $1 work unit, $2 variant: prints operations/s and processor microseconds per block.
measure() {
    local unit=$1 variant=$2 before ticks out client ops
    before=$(server_ticks)
    TIMEFORMAT='%U %S'
    if [ "$variant" = pgbench ]; then
        cat >"$folder/select.sql" <<SQL
\\set first random(1, $rows - $unit + 1)
SELECT count(c2) FROM (SELECT c2 FROM petal1.cf1
    WHERE custid BETWEEN :first AND :first + $unit - 1 OFFSET 0) AS visited;
SQL
        client=$({ time PGOPTIONS="-c plan_cache_mode=force_generic_plan -c enable_bitmapscan=off -c jit=off" \
            "$programs/pgbench" -h "$folder" -U petal -n -M prepared -c 1 -T "$seconds" \
            -f "$folder/select.sql" postgres >"$folder/out" 2>"$folder/err"; } 2>&1)
        ops=$(awk '/^number of transactions actually processed/ {sub(/.*: /, ""); sub(/\/.*/, ""); print}' "$folder/out")
    elif [ "$variant" = plpgsql ]; then
        client=$({ time "$programs/psql" -qAt -h "$folder" -U petal postgres \
            -c "SELECT plain_loop($unit, $rows, $seconds)" >"$folder/out"; } 2>&1)
        ops=$(cat "$folder/out")
    else
        client=$({ time "$petal" -q run -s 1 -t 1 --update-pct 0 --work-unit "$unit" --loop "$variant" \
            --run-time "$seconds" --db "$url" --out "$folder/results" --no-os-perf-data TRUE --json \
            >"$folder/out" 2>"$folder/err"; } 2>&1)
        ops=$(tr -d ' \n' <"$folder/out" | sed 's/.*"ops":{"select":\([0-9]*\).*/\1/')
    fi
    sleep 0.5
    ticks=$(($(server_ticks) - before))
    echo "$ops $client $ticks" | awk -v unit="$unit" -v seconds="$seconds" -v hz="$(getconf CLK_TCK)" \
        '{printf "%.0f %.3f\n", $1 / seconds, ($2 + $3 + $4 / hz) * 1e6 / ($1 * unit)}'
}

"$petal" -q run -s 1 -t 1 --update-pct 0 --run-time 1 --warm-up cache --db "$url" \
    --out "$folder/results" --no-os-perf-data TRUE --json >/dev/null 2>&1
printf '%5s  %-8s %14s %24s\n' unit variant 'operations/s' 'processor us per block'
for unit in 1 8 64 255; do
    for round in $(seq "$rounds"); do
        for variant in server plpgsql pgbench client; do
            measure "$unit" "$variant" >>"$folder/$unit-$variant"
        done
    done
    for variant in server plpgsql pgbench client; do
        median() { sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
        ops=$(cut -d' ' -f1 "$folder/$unit-$variant" | median)
        cost=$(cut -d' ' -f2 "$folder/$unit-$variant" | median)
        printf '%5s  %-8s %14s %24s\n' "$unit" "$variant" "$ops" "$cost"
    done
done
