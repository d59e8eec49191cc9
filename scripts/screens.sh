#!/bin/sh
# Writes the screens of run, sweep, compare and history into their recipes, from real runs on the
# embedded default. It takes about eight minutes on a quiet host:
#   cargo build --release && sh scripts/screens.sh [SECONDS A RUN]      PETAL: another program
set -eu
seconds=${1:-5}
root=$(cd "$(dirname "$0")/.." && pwd)
petal=${PETAL:-$root/target/release/petal}
work=$(mktemp -d "$root/target/screens-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir bin && ln -s "$petal" bin/petal
PATH="$work/bin:$PATH"
export PATH

# Writes a command and its end on a terminal of 100 columns, without progress, into a recipe.
screen() {
    page=$root/docs/recipes/$1.md
    {
        sed '/^<!-- Screen: written by scripts\/screens.sh. -->/q' "$page"
        printf '```\n$ %s\n' "$2"
        COLUMNS=100 script -qec "stty cols 100 rows 50; $2 2>/dev/null" /dev/null </dev/null | tr -d '\r'
        printf '```\n'
        sed -n '/^<!-- End of the screen. -->/,$p' "$page"
    } >page
    cp page "$page"
}

petal setup -q -s 2 --scale 64M >/dev/null
set -- --update-pct 0,20 --sessions 1,2,4 --repeats 3 --run-time "$seconds"
petal sweep -q "$@" --out before >/dev/null
petal sweep -q "$@" --redo-stress HEAVY --out after >/dev/null
# Eight nights of three runs, the last two with a smaller WORK_UNIT. petal history groups runs by
# their days, so each night gets a date. A fixed rate keeps the nights alike on a busy host, too.
for night in 1 2 3 4 5 6 7 8; do
    unit=64
    [ "$night" -lt 7 ] || unit=48
    petal run -q -s 2 -t 2 --update-pct 50 --rate 100 --work-unit "$unit" --repeats 3 \
        --run-time "$seconds" --out "nightly/$night" >/dev/null
    sed -i "s/\(\"started_at\": *\"\)[0-9-]*T/\12026-11-0${night}T/" "nightly/$night"/*/run.json
done
screen physical-read-only "petal run -s 2 -t 4 --update-pct 20 --run-time $seconds"
screen petals "petal report before"
screen before-after "petal compare before after"
screen history "petal history nightly/* --metric piops,read_us --fail-if 'piops < -5%'"
