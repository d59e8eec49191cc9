#!/usr/bin/env bash
# petal beside fio on the same files: requests a second, processor time a request, p99 of reads from
# submit to completion.
#
#   [PLACE=/var/tmp] [ROUNDS=5] [SECONDS_EACH=4] [DEPTHS="1 16 64"] benches/peers/device.sh
#
# read: 8 KiB random reads. `petal run` with VERIFY=header (every block's address, generation and
#   version are looked at) on a file of `petal setup`; fio reads the same file past petal's header.
# mix: 70 % random reads, 30 % random writes of 8 KiB, without sync. An UPDATE of petal's is more
#   than a write (it reads, logs and syncs), so this is `petal calibrate`'s mixed curve, the same
#   queue without method; fio gets rw=randrw, rwmixread=70 on the same stretch of the same file.
#
# Both use io_uring with registered buffers and file, O_DIRECT and one thread. Processor time of
# reads is that of the whole process and of the kernel's workers in it, less a run of one
# operation; that of the mix is the one thread's, as both programs report it. Needs fio and jq, and
# room for 5 GiB. On tmpfs (PLACE=/dev/shm) software alone is measured.
#
# Where idle processors of a virtual machine poll for a while before they halt (cpuidle-haltpoll), a
# low depth has two speeds that differ several times over, and either program may meet either: only
# rounds in which both met the same say something, so take many short ones.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

data=$folder/data.dat stretch=$folder/stretch.dat
target="device:$data?log=1M"
"$petal" -q setup -s 1 --scale 3G --scan-table-sz 0 --db "$target" >/dev/null
calibrate() {
    "$petal" -q calibrate "$stretch" --size 1G --keep --threads 1 --json --out "$folder/results" \
        --calibrations "$folder/results" "$@" 2>/dev/null
}
calibrate --depths 1 --seconds 1 >/dev/null

fio_job() { # file rw, further arguments
    timed fio --name=x --filename="$1" --rw="$2" --iodepth="$depth" --bs=8k --direct=1 --offset=2m \
        --ioengine=io_uring --fixedbufs=1 --registerfiles=1 --norandommap --randrepeat=0 \
        --lat_percentiles=1 --clat_percentiles=0 --output-format=json "${@:3}"
}

reads() { # further arguments
    petal_run -s 1 -t 1 --update-pct 0 --io-depth "$depth" --verify header --db "$target" "$@"
}

petal_read() {
    local cpu
    cpu=$(reads --run-time "$seconds")
    jq -r --argjson cpu "$cpu" --argjson idle "$petal_idle" '
        .per_second.physical_read_requests as $iops
        | [$iops, ($cpu - $idle) * 1e6 / ($iops * .elapsed_s), .io_latency_us.read.p99] | @tsv' "$folder/out"
}

fio_read() {
    local cpu
    cpu=$(fio_job "$data" randread --time_based --runtime="$seconds")
    jq -r --argjson cpu "$cpu" --argjson idle "$fio_idle" '
        .jobs[0].read | [.iops, ($cpu - $idle) * 1e6 / .total_ios,
            .lat_ns.percentile["99.000000"] / 1000] | @tsv' "$folder/out"
}

petal_mix() {
    # Six measurements in three rounds: each lasts SECONDS_EACH in all.
    calibrate --depths "$depth" --seconds $((6 * seconds)) |
        jq -r '.curves.mix[0] | [.iops, .thread_cpu_share * 1e6 / .iops, .read_latency_us.p99] | @tsv'
}

fio_mix() {
    fio_job "$stretch" randrw --rwmixread=70 --time_based --runtime="$seconds" >/dev/null
    jq -r '.jobs[0] | (.read.iops + .write.iops) as $iops
        | [$iops, (.usr_cpu + .sys_cpu) * 1e4 / $iops,
            .read.lat_ns.percentile["99.000000"] / 1000] | @tsv' "$folder/out"
}

depth=1
petal_idle=$(reads --work-loop 1)
fio_idle=$(fio_job "$data" randread --number_ios=1)
kind=$(stat -f -c %T "$place")
for depth in ${DEPTHS:-1 16 64}; do
    in_turn "device on $kind: reads at depth $depth" fio petal_read fio_read
    in_turn "device on $kind: 70 % reads at depth $depth" fio petal_mix fio_mix
done
shown
