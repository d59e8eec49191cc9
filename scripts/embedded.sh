#!/bin/sh
# Writes the table of docs/engines/embedded.md: the same sweep on each embedded database, on one host.
# It takes about a quarter of an hour on a quiet host, and needs librocksdb:
#   cargo build --release && sh scripts/embedded.sh [SECONDS A RUN]     PETAL: another program
set -eu
seconds=${1:-5}
root=$(cd "$(dirname "$0")/.." && pwd)
petal=${PETAL:-$root/target/release/petal}
page=$root/docs/engines/embedded.md
work=$(mktemp -d "$root/target/embedded-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
"$petal" sweep -q --load -s 2 --scale 256M --block-sz 4K --sessions 1,4,16 --update-pct 0,20 \
    --repeats 3 --run-time "$seconds" --db sqlite:sqlite --db redb:redb --db lmdb:lmdb --db rocksdb:rocksdb \
    --out sweep >/dev/null
load=$(cut -d' ' -f2 /proc/loadavg)
processor=$(awk -F': ' '/model name/ {print $2; exit}' /proc/cpuinfo)
{
    sed '/<!-- Sweep: written by a script. -->/q' "$page"
    printf '\n| engine | sessions | UPDATE_PCT | reads/s | reads a row | read us | commits/s | UPDATE p50 ms | MB written a commit |\n'
    printf '%s\n' '|---|---|---|---|---|---|---|---|---|'
    # Means of the repeats; an operation visits 64 rows, and what a commit writes includes a log.
    awk -F, '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        {
            split($at["db"], url, ":")
            key = url[1] "," $at["sessions"] "," $at["update_pct"]
            if (!(key in runs)) order[++cells] = key
            runs[key]++
            reads[key] += $at["reads_s"]; rows[key] += 64 * $at["ops_s"]
            read_us[key] += $at["read_us"]; commits[key] += $at["commits_s"]
            update_us[key] += $at["update_p50_us"]
            written[key] += $at["write_mb_s"] + $at["redo_mb_s"]
        }
        END {
            for (i = 1; i <= cells; i++) {
                key = order[i]; n = runs[key]; split(key, name, ",")
                printf "| %s | %s | %s | %.0f | %.2f | %.0f |", name[1], name[2], name[3], \
                    reads[key] / n, reads[key] / rows[key], read_us[key] / n
                if (name[3] == 0) print " - | - | - |"
                else printf " %.0f | %.1f | %.2f |\n", commits[key] / n, update_us[key] / n / 1000, \
                    written[key] / commits[key]
            }
        }' sweep/sweep.csv
    printf '\nThree runs of %s seconds for each row; two schemas of 256 MiB, blocks of 4 KiB, WORK_UNIT 64. %s, %s processors,\n' \
        "$seconds" "$(date -u +%F)" "$(nproc)"
    printf '%s, Linux %s; the load average was %s.\n\n' "$processor" "$(uname -r)" "$load"
    sed -n '/<!-- End of the sweep. -->/,$p' "$page"
} >page
cp page "$page"
