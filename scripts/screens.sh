#!/bin/sh
# Writes docs/screens.md: the screens of run, sweep and compare, from real runs on the embedded
# default. It takes about five minutes on a quiet host:
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

# Shows a command as a terminal of 100 columns does, without the lines of progress.
screen() {
    printf '\n```\n$ %s\n' "$1"
    COLUMNS=100 script -qec "stty cols 100 rows 50; $1 2>/dev/null" /dev/null </dev/null | tr -d '\r'
    printf '```\n'
}

petal setup -q -s 2 --scale 64M >/dev/null
set -- --update-pct 0,20 --sessions 1,2,4 --repeats 3 --run-time "$seconds"
petal sweep -q "$@" --out before >/dev/null
petal sweep -q "$@" --redo-stress HEAVY --out after >/dev/null
{
    cat <<END
# Screens

The end of three commands on a terminal, as \`scripts/screens.sh\` made them from real runs of $seconds seconds on a small
data set. Real tests run for minutes. Each screen answers: how much, at what latency, what limits it, and
can I believe it? \`--full\` prints the whole report, and so does a pipe.

## A run
END
    screen "petal run -s 2 -t 4 --update-pct 20 --run-time $seconds"
    printf '\n## A sweep\n'
    screen "petal report before"
    printf '\n## A comparison\n'
    screen "petal compare before after"
} >"$root/docs/screens.md"
