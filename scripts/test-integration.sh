#!/usr/bin/env bash
# Runs the integration tests, seven at once. Up to eight that fail beside the others run again, alone,
# and must pass: a busy host stretches times, a fault stays. The last lines name them.
set -uo pipefail
cargo=${CARGO:-cargo}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

"$cargo" test --locked --test integration -- --test-threads=7 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
# The last list of the log names them, four spaces before each.
mapfile -t failed < <(sed -n '/^failures:$/h; /^failures:$/!H; ${x; p}' "$log" | sed -n 's/^    \([a-z0-9_:]*\)$/\1/p')
if [ "$status" -eq 0 ] || [ "${#failed[@]}" -eq 0 ] || [ "${#failed[@]}" -gt 8 ]; then
    exit "$status"
fi
echo "Failed beside the others, and run again alone: ${failed[*]}"
"$cargo" test --locked --test integration -- --exact --test-threads=1 "${failed[@]}" || exit
printf 'passed only when run again: %s\n' "${failed[@]}"
