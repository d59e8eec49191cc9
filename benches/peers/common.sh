# What the scripts beside it share: a folder that is removed, petal built as packages hold it, two programs
# measured in turn, rows of one table, and what petal's own `compare` makes of them.
#
# A row is one measurement of one program: test, peer, program (petal or peer), operations a second,
# processor microseconds an operation of client and server together, 99th percentile in microseconds; a
# figure that a peer does not have is empty. ROWS names the table to append to; without it a script
# prints its own comparison.
# ROUNDS and SECONDS_EACH are how often and how long each program runs; PLACE is where data lies.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-4} place=${PLACE:-/var/tmp}
petal=$(realpath -m "${PETAL:-target/dist/petal}")
[ -n "${PETAL:-}" ] || cargo build --profile dist --locked -q
folder=$(mktemp -d "$place/petal-peers-XXXXXX")
chmod 755 "$folder"
header=test,peer,program,operations_s,cpu_us,p99_us
rows=${ROWS:-$folder/rows.csv}
[ -s "$rows" ] || echo "$header" >"$rows"
hz=$(getconf CLK_TCK)
servers=()

# The servers that were started, and all data.
clean() {
    for server in "${servers[@]}"; do kill -KILL "$server" 2>/dev/null || true; done
    sleep 0.3
    rm -rf "$folder"
}
trap clean EXIT

# Runs a command; its output goes to $folder/out, its processor seconds are printed. That it failed is
# noted for in_turn, where no failure ends the script.
timed() {
    local TIMEFORMAT='%U %S'
    { time "$@" >"$folder/out" 2>"$folder/err" || touch "$folder/failed"; } 2>&1 | awk '{print $1 + $2}'
}

# A command as another user where root is who asks; servers refuse root.
as() {
    local user=$1
    shift
    if [ "$(id -u)" = 0 ]; then runuser -u "$user" -- "$@"; else "$@"; fi
}

# Processor seconds of a process and of its children that have ended.
processor_s() { awk -v hz="$hz" '{print ($14 + $15 + $16 + $17) / hz}' "/proc/$1/stat"; }

# used COMMAND...: runs it, and leaves in `spent` the processor seconds of it and of the server's sessions
# that ended with it. Not by substitution, which would lose the variable.
used() {
    local before client
    before=$(processor_s "${servers[0]}")
    client=$("$@")
    # A session's processor time is the server's once it has ended.
    sleep 0.5
    spent=$(echo "$client $(processor_s "${servers[0]}") $before" | awk '{print $1 + $2 - $3}')
}
# idle COMMAND...: what it spends, the least of three: the first after a start pays for what later ones
# find done.
idle() { for _ in 1 2 3; do used "$@"; echo "$spent"; done | sort -g | head -1; }
# cost OPERATIONS IDLE: operations a second, processor microseconds an operation, less what IDLE spent,
# which is the same program with one operation: starting, connecting, settling, reporting.
cost() {
    echo "$1 $seconds $spent $2" | awk '{print $1 / $2, ($3 - $4) * 1e6 / $1}'
}

# petal with what every measurement has; JSON goes to $folder/out, processor seconds are printed.
petal_run() {
    timed "$petal" -q run --out "$folder/results" --json "$@"
}

# Loads. Operations are bytes of the data set, the blocks that were asked for, once; their rate is until
# they are durable, by each program's own clock. All that petal does is in its processor time, also its
# proof afterwards.
gib=${GIB:-2}
# rate SECONDS COMMAND...: bytes a second and processor microseconds a byte, of the command and of the
# server. SECONDS prints the command's own seconds until all was durable.
rate() {
    if [ ${#servers[@]} = 0 ]; then spent=$(timed "${@:2}"); else used timed "${@:2}"; fi
    echo "$((gib << 30)) $($1) $spent" | awk '{print $1 / $2, $3 * 1e6 / $1}'
}
petal_durable() { awk '/^rows and indexes durable after/ {print $6}' "$folder/out"; }
# `petal setup` of so many schemas at a target.
petal_load() {
    "$petal" -q drop --db "$target" >/dev/null 2>&1 || true
    rate petal_durable "$petal" setup -s "$schemas" --scale $((gib * 1024 / schemas))M \
        --scan-table-sz 0 --db "$target"
}
fio_durable() { jq '.jobs[0].write.runtime / 1000' "$folder/out"; }
# fio writing as many bytes to the same disk: 1 MiB at a time, direct, one fsync at the end.
fio_write() {
    # What a server does meanwhile is not fio's.
    local servers=()
    rm -f "$folder/fio.dat"
    rate fio_durable fio --name=x --filename="$folder/fio.dat" --rw=write --bs=1m --size="${gib}G" \
        --direct=1 --ioengine=io_uring --iodepth=8 --end_fsync=1 --output-format=json
    rm -f "$folder/fio.dat"
}

# in_turn TEST PEER PETAL_COMMAND PEER_COMMAND: each command prints operations a second, processor
# microseconds an operation and, if it has it, the 99th percentile. Who begins changes with the round.
in_turn() {
    local test=${1//,/} peer=$2 round program figures # no comma within a cell
    local -A command=([petal]=$3 [peer]=$4)
    for round in $(seq "$rounds"); do
        local order="petal peer"
        [ $((round % 2)) = 1 ] || order="peer petal"
        for program in $order; do
            figures=$(${command[$program]}) && [ ! -e "$folder/failed" ] &&
                [ "$(echo "$figures" | awk '{print ($1 > 0)}')" = 1 ] || {
                echo "$test: ${command[$program]} failed: $(tail -3 "$folder/err")" >&2
                return 1
            }
            echo "$test,$peer,$program,$(echo "$figures" | awk '{print $1 "," $2 "," $3}')" >>"$rows"
        done
    done
}

# The end of a script: what petal's own comparison says of its rows, pair by pair.
shown() {
    [ -n "${ROWS:-}" ] ||
        "$petal" compare "$rows" --factors test,peer,program --by program --baseline peer --in-turn
}
