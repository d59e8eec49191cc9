#!/bin/sh
# Captures the full screen of real work with tmux: docs/images/live-run.svg shows a run, and
# docs/images/live.svg petal demo from its start. It takes about five minutes:
#   cargo build --release && sh scripts/live-picture.sh     PETAL: another program
# docs/images/live-browser.png is the demo in a browser:
#   cargo test --test integration the_picture_of_the_demo_in_a_browser -- --ignored
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
petal=${PETAL:-$root/target/release/petal}
work=$(mktemp -d "$root/target/live-XXXXXX")
socket=$work/tmux
trap 'tmux -S "$socket" kill-server 2>/dev/null || true; rm -rf "$work"' EXIT
cp "$petal" "$work/petal"
petal=$work/petal
cd "$work"

start() {
    LC_ALL=C.UTF-8 tmux -u -S "$socket" new-session -d -x 80 -y 24 "$petal $1"
}

# The hang-up ends the work, which needs its data until then.
end() {
    tmux -S "$socket" kill-server 2>/dev/null || true
    while pgrep -f "^$petal " >/dev/null; do sleep 1; done
}

captured() {
    tmux -S "$socket" capture-pane -p
}

# Draws the frames in files as one picture with a title, each for a second.
svg() {
    title=$1
    shift
    awk -v frames=$# -v title="$title" '
        FNR == 1 {
            if (NR > 1) print "</g>"
            from = at++ / frames; to = at / frames
            printf "<g visibility=\"%s\">", at == frames ? "visible" : "hidden"
            if (frames > 1) {
                printf "<animate attributeName=\"visibility\" calcMode=\"discrete\" repeatCount=\"indefinite\" "
                printf "dur=\"%ds\" values=\"hidden;visible;hidden\" keyTimes=\"0;%.4f;%.4f\"/>", frames, from, to
            }
            print ""
        }
        BEGIN {
            print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 664 412\" width=\"664\" role=\"img\">"
            print "<title>" title "</title>"
            print "<style>text{font:13px ui-monospace,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;fill:#d8dee9;white-space:pre}</style>"
            print "<rect width=\"664\" height=\"412\" rx=\"8\" fill=\"#10161d\"/>"
        }
        $0 != "" {
            gsub(/&/, "\\&amp;"); gsub(/</, "\\&lt;")
            printf "<text x=\"20\" y=\"%d\">%s</text>\n", 28 + FNR * 16 - 8, $0
        }
        END { print "</g></svg>" }
    ' "$@"
}

"$petal" setup -q -s 4 --scale 256M >/dev/null
start "run --live -s 4 -t 2 --update-pct 20 --run-time 60"
sleep 45
captured >run
end
rm -r petal-data
start "demo --live"
frame=0
while sleep 6 && captured >screen; do
    frame=$((frame + 1))
    cp screen "frame$(printf %03d $frame)"
done 2>/dev/null
end
# At most thirty frames, with the last one.
each=$(((frame + 29) / 30))
until [ $frame -lt $each ]; do
    chosen="frame$(printf %03d $frame) ${chosen:-}"
    frame=$((frame - each))
done
svg "The full screen of petal demo, from its start" $chosen >"$root/docs/images/live.svg"
svg "The full screen of a run" run >"$root/docs/images/live-run.svg"
