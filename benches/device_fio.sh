#!/usr/bin/env bash
# petal beside fio on the same files, interleaved: medians of petal over fio for requests per
# second, p99 from submit to completion, and processor time per request.
#
#   benches/device_fio.sh [FOLDER=/var/tmp] [ROUNDS=5] [SECONDS=4] [DEPTHS="1 16 64"]
#
# read: 8 KiB random reads. `petal run` with VERIFY=header (every block's address, generation and
#   version are looked at) on a file of `petal setup`; fio reads the same file past petal's header.
# mix: 70 % random reads, 30 % random writes of 8 KiB, without sync. An UPDATE of petal's is more
#   than a write (it reads, logs and syncs), so this is `petal calibrate`'s mixed curve, the same
#   queue without method; fio gets rw=randrw, rwmixread=70 on the same stretch of the same file.
#
# Both use io_uring with registered buffers and file, O_DIRECT and one thread. Processor time of
# reads is that of the whole process and of the kernel's workers in it, less a run of one
# operation; that of the mix is the one thread's, as both programs tell it. Needs fio and jq, and
# room for 5 GiB. On tmpfs (FOLDER=/dev/shm) software alone is measured.
#
# Where idle processors of a virtual machine poll for a while before they halt (cpuidle-haltpoll), a
# low depth has two speeds that differ several times over, and either program may meet either: only
# rounds in which both met the same say something, so take many short ones.
set -euo pipefail
cd "$(dirname "$0")/.."

place=${1:-/var/tmp} rounds=${2:-5} seconds=${3:-4} depths=${4:-1 16 64}
petal=${PETAL:-target/release/petal}
[ -n "${PETAL:-}" ] || cargo build --release --locked -q
folder=$(mktemp -d "$place/petal-fio-XXXXXX")
trap 'rm -rf "$folder"' EXIT
data=$folder/data.dat stretch=$folder/stretch.dat
"$petal" -q setup -s 1 --scale 3G --scan-table-sz 0 --db "device:$data?log=1M" >/dev/null
calibrate() {
    "$petal" -q calibrate "$stretch" --size 1G --keep --threads 1 --json --out "$folder/results" \
        --calibrations "$folder/results" "$@" 2>/dev/null
}
calibrate --depths 1 --seconds 1 >/dev/null

# Runs a command; its output goes to $folder/out, its processor seconds are printed.
timed() {
    local TIMEFORMAT='%U %S'
    { time "$@" >"$folder/out" 2>"$folder/err"; } 2>&1 | awk '{print $1 + $2}'
}

fio_job() { # file rw depth, further arguments
    timed fio --name=x --filename="$1" --rw="$2" --iodepth="$3" --bs=8k --direct=1 --offset=2m \
        --ioengine=io_uring --fixedbufs=1 --registerfiles=1 --norandommap --randrepeat=0 \
        --lat_percentiles=1 --clat_percentiles=0 --output-format=json "${@:4}"
}

petal_run() { # depth, further arguments
    timed "$petal" -q run -s 1 -t 1 --update-pct 0 --io-depth "$1" --verify header --json \
        --db "device:$data?log=1M" --out "$folder/results" "${@:2}"
}

# Each prints: requests/s, p99 in us, processor us per request.
petal_read() {
    local cpu
    cpu=$(petal_run "$1" --run-time "$seconds")
    jq -r --argjson cpu "$cpu" --argjson idle "$petal_idle" '
        .per_second.physical_read_requests as $iops
        | [$iops, .io_latency_us.read.p99, ($cpu - $idle) * 1e6 / ($iops * .elapsed_s)]
        | @tsv' "$folder/out"
}

fio_read() {
    local cpu
    cpu=$(fio_job "$data" randread "$1" --time_based --runtime="$seconds")
    jq -r --argjson cpu "$cpu" --argjson idle "$fio_idle" '
        .jobs[0].read | [.iops, .lat_ns.percentile["99.000000"] / 1000,
            ($cpu - $idle) * 1e6 / .total_ios] | @tsv' "$folder/out"
}

petal_mix() {
    # Six measurements in three rounds: each lasts SECONDS in all.
    calibrate --depths "$1" --seconds $((6 * seconds)) | jq -r '
        .curves.mix[0] | [.iops, .read_latency_us.p99, .thread_cpu_share * 1e6 / .iops] | @tsv'
}

fio_mix() {
    fio_job "$stretch" randrw "$1" --rwmixread=70 --time_based --runtime="$seconds" >/dev/null
    jq -r '.jobs[0] | (.read.iops + .write.iops) as $iops
        | [$iops, .read.lat_ns.percentile["99.000000"] / 1000,
            (.usr_cpu + .sys_cpu) * 1e4 / $iops] | @tsv' "$folder/out"
}

petal_idle=$(petal_run 1 --work-loop 1)
fio_idle=$(fio_job "$data" randread 1 --number_ios=1)
median() { sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

printf '%-5s %5s   %-36s   %-36s   %s\n' '' '' petal fio 'petal / fio, medians of ratios'
printf '%-5s %5s   %12s %11s %11s   %12s %11s %11s   %7s %7s %7s\n' work depth \
    requests/s 'p99 us' 'cpu us' requests/s 'p99 us' 'cpu us' rate p99 cpu
for work in read mix; do
    for depth in $depths; do
        rm -f "$folder"/petal.tsv "$folder"/fio.tsv
        for round in $(seq "$rounds"); do
            order="petal fio" && [ $((round % 2)) = 0 ] && order="fio petal"
            for program in $order; do "${program}_$work" "$depth" >>"$folder/$program.tsv"; done
        done
        column() { cut -f"$2" "$folder/$1.tsv" | median; }
        ratio() {
            paste <(cut -f"$1" "$folder/petal.tsv") <(cut -f"$1" "$folder/fio.tsv") |
                awk '{print $1 / $2}' | median
        }
        printf '%-5s %5s   %12.0f %11.1f %11.2f   %12.0f %11.1f %11.2f   %7.3f %7.3f %7.3f\n' \
            "$work" "$depth" "$(column petal 1)" "$(column petal 2)" "$(column petal 3)" \
            "$(column fio 1)" "$(column fio 2)" "$(column fio 3)" \
            "$(ratio 1)" "$(ratio 2)" "$(ratio 3)"
    done
done
