#!/usr/bin/env bash
# All comparisons with peers, one after the other, into docs/ratios.txt: `make bench-peers`. An hour or
# more on a quiet machine. Missing programs are installed from Debian's packages.
#
#   [ROUNDS=5] [SECONDS_EACH=4] [STARTS=2] [PLACE=/var/tmp] [ONLY="device mysql"] \
#       benches/peers/page.sh [PGIO_FOLDER]
#
# ONLY takes some of them. The rows of the others are those of target/peers/, or as docs/ratios.txt has them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

packages=()
for program in fio sysbench jq curl pgbench mariadbd; do
    PATH=$PATH:/usr/sbin:$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1) \
        command -v $program >/dev/null && continue
    case $program in
        pgbench) packages+=(postgresql postgresql-contrib) ;;
        mariadbd) packages+=(mariadb-server) ;;
        *) packages+=($program) ;;
    esac
done
sh scripts/install-test-servers.sh
if [ ${#packages[@]} -gt 0 ]; then
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${packages[@]}"
fi
# The commit of what is built here; of another build it is not known.
built=${PETAL:+another build}
built=${built:-$(git rev-parse --short HEAD)}
[ -n "${PETAL:-}" ] || cargo build --profile dist --locked -q
export PETAL=${PETAL:-$PWD/target/dist/petal}
mkdir -p target/peers
processor=$(awk -F': ' '/model name/ {print $2; exit}' /proc/cpuinfo)

# run NAME COMMAND...: rows of the comparison go to target/peers/NAME.csv once it is through.
run() {
    local name=$1
    shift
    [ -z "${ONLY:-}" ] || [[ " $ONLY " == *" $name "* ]] || return 0
    echo "$name: $*" >&2
    rm -f target/peers/$name.new
    ROWS=$PWD/target/peers/$name.new "$@"
    # What was left out keeps the rows it has.
    [ "$(wc -l <target/peers/$name.new)" -gt 1 ] || return 0
    mv target/peers/$name.new target/peers/$name.csv
    echo "$(date -u +%F) ($built), $processor, Linux $(uname -r)" >target/peers/$name.when
}
run device benches/peers/device.sh
run tmpfs env PLACE=/dev/shm benches/peers/device.sh
run sqlite benches/peers/sqlite.sh
run postgres benches/peers/postgres.sh cached "$@"
run postgres-physical benches/peers/postgres.sh physical "$@"
run mysql benches/peers/mysql.sh
run load benches/peers/load.sh
run watching benches/peers/watching.sh
awk 'FNR > 1 || NR == 1' target/peers/*.csv >target/peers/all

# tests_of PART: how the names of its tests begin.
tests_of() {
    case $1 in
        device) echo "device on [^t]" ;;
        tmpfs) echo "device on tmpfs" ;;
        sqlite) echo SQLite ;;
        postgres) echo "PostgreSQL cached" ;;
        postgres-physical) echo "PostgreSQL physical" ;;
        mysql) echo MariaDB ;;
        load | watching) echo "$1:" ;;
    esac
}
parts="device load mysql postgres postgres-physical sqlite tmpfs watching"
days() {
    local part
    for part in $parts; do
        if [ -s target/peers/$part.csv ]; then
            echo "- $part: $(cat target/peers/$part.when 2>/dev/null || echo "on an unknown day")"
        else
            grep "^- $part: " docs/ratios.txt || true
        fi
    done
}
rows_before() {
    local part
    for part in $parts; do
        [ -s target/peers/$part.csv ] || grep "^$(tests_of $part)" docs/ratios.txt || true
    done
}

row='%-64s %10s  %-22s  %s\n'
# One line of the table for each test and peer: ratios of petal to the peer, with their intervals.
table() {
    local peer=$(awk -F, 'END {print $2}' target/peers/all)
    "$PETAL" compare target/peers/all --factors test,peer,program --by program --baseline peer \
        --in-turn --csv | awk -F, -v peer="$peer" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        {
            # A factor with one value alone has no column.
            key = $at["test"] ", " ("peer" in at ? $at["peer"] : peer)
            if (!(key in seen)) { seen[key] = 1; keys[++count] = key }
            share = sprintf("%.3f", 1 + $at["change_pct"] / 100)
            if ($at["change_low_pct"] != "")
                share = share sprintf(" (%.3f-%.3f)", 1 + $at["change_low_pct"] / 100,
                    1 + $at["change_high_pct"] / 100)
            figure[key, $at["metric"]] = $at["baseline_mean"] == "" ? "-" : share
            if ($at["metric"] == "operations_s") rate[key] = sprintf("%.0f", $at["baseline_mean"])
        }
        function of(key, metric) { return (key, metric) in figure ? figure[key, metric] : "-" }
        END {
            for (i = 1; i <= count; i++) {
                p99 = of(keys[i], "p99_us")
                printf "'"$row"'", keys[i], rate[keys[i]], of(keys[i], "operations_s"),
                    of(keys[i], "cpu_us") (p99 == "-" ? "" : "; p99 " p99)
            }
        }'
}
version() { "$@" 2>/dev/null | head -1 || true; }
{
    echo "petal against its peers, as \`make bench-peers\` wrote it. docs/performance.md explains the columns."
    echo
    memory=$(awk '/MemTotal/ {printf "%.0f", $2 / 1048576}' /proc/meminfo)
    echo "Each part was measured on its day, at its commit, on its machine:"
    echo
    days
    echo
    echo "The last one: $("$PETAL" --version), $(nproc) processors, $memory GiB,"
    echo "$(findmnt -n -o FSTYPE,SOURCE -T "${PLACE:-/var/tmp}" | xargs); $(version fio --version),"
    echo "$(version sysbench --version), $(version pgbench --version), $(version mariadb --version | cut -d, -f1)."
    echo
    printf "$row" "test, peer" "peer/s" "rate" "processor time"
    { table; rows_before; } | LC_ALL=C sort
} >target/peers/ratios.txt
mv target/peers/ratios.txt docs/ratios.txt
