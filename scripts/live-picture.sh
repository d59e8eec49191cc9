#!/bin/sh
# Captures the full screen of real work with tmux, in the terminal's characters: the picture in
# docs/recipes/live.md. It takes about two minutes:
#   cargo build --release && sh scripts/live-picture.sh     PETAL: another program
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
petal=${PETAL:-$root/target/release/petal}
page=$root/docs/recipes/live.md
work=$(mktemp -d "$root/target/live-XXXXXX")
socket=$work/tmux
trap 'tmux -S "$socket" kill-server 2>/dev/null; rm -rf "$work"' EXIT
cd "$work"

# Shows what a terminal of 80 x 24 has after SECONDS of `petal ARGS`.
captured() {
    LC_ALL=C.UTF-8 tmux -u -S "$socket" new-session -d -x 80 -y 24 "$petal $2"
    sleep "$1"
    tmux -S "$socket" capture-pane -p
    tmux -S "$socket" kill-server
    sleep 10 # The hang-up ends the work.
}

"$petal" setup -q -s 4 --scale 256M >/dev/null
{
    sed '/^<!-- Screen: /,$d' "$page"
    echo '<!-- Screen: written by scripts/live-picture.sh. -->'
    printf '```\n'
    captured 45 "run --live -s 4 -t 2 --update-pct 20 --run-time 60"
    printf '```\n\nA sweep, 40 seconds after its begin:\n\n```\n'
    captured 40 "sweep --live --sessions 1,2,4 --update-pct 0,20 --repeats 3 --run-time 8"
    printf '```\n<!-- End of the screen. -->\n'
} >"$work/page"
cp "$work/page" "$page"
