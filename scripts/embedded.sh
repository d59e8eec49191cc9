#!/bin/sh
# Writes the table of docs/engines/embedded.md: the same sweep on each embedded database, on one host.
# It takes five minutes on a quiet host, and needs python3:
#   cargo build --release && sh scripts/embedded.sh [SECONDS A RUN]     PETAL: another program
set -eu
seconds=${1:-5}
root=$(cd "$(dirname "$0")/.." && pwd)
petal=${PETAL:-$root/target/release/petal}
page=$root/docs/engines/embedded.md
work=$(mktemp -d "$root/target/embedded-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
"$petal" sweep -q --load -s 2 --scale 256M --block-sz 4K --sessions 1,16 --update-pct 0,20 \
    --repeats 3 --run-time "$seconds" --db sqlite:sqlite --db redb:redb --db lmdb:lmdb \
    --out sweep >/dev/null
load=$(cut -d' ' -f2 /proc/loadavg)
processor=$(awk -F': ' '/model name/ {print $2; exit}' /proc/cpuinfo)
{
    sed '/<!-- Sweep: written by a script. -->/q' "$page"
    printf '\n| engine | sessions | UPDATE_PCT | reads/s | reads a row | read us | commits/s | UPDATE p50 ms | MB written a commit |\n'
    printf '%s\n' '|---|---|---|---|---|---|---|---|---|'
    # Means of the repeats; an operation visits 64 rows, and what a commit writes includes a log.
    python3 - <<'END'
import csv

cells = {}
for run in csv.DictReader(open("sweep/sweep.csv")):
    key = run["db"].split(":")[0], run["sessions"], run["update_pct"]
    cells.setdefault(key, []).append(run)
for key, runs in cells.items():
    def mean(*columns):
        # redb and LMDB have no log.
        return sum(float(run[column] or 0) for run in runs for column in columns) / len(runs)
    reads, rows = mean("reads_s"), 64 * mean("ops_s")
    row = [*key, f"{reads:.0f}", f"{reads / rows:.2f}", f"{mean('read_us'):.0f}"]
    if key[2] == "0":
        row += ["-", "-", "-"]
    else:
        commits = mean("commits_s")
        written = mean("write_mb_s", "redo_mb_s") / commits
        row += [f"{commits:.0f}", f"{mean('update_p50_us') / 1000:.1f}", f"{written:.2f}"]
    print("| " + " | ".join(row) + " |")
END
    printf '\nThree runs of %s seconds for each row; two schemas of 256 MiB, blocks of 4 KiB, WORK_UNIT 64. %s, %s processors,\n' \
        "$seconds" "$(date -u +%F)" "$(nproc)"
    printf '%s, Linux %s; the load average was %s.\n\n' "$processor" "$(uname -r)" "$load"
    sed -n '/<!-- End of the sweep. -->/,$p' "$page"
} >page
cp page "$page"
