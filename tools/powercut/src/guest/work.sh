# Ends an order: its output and its status go out by the port.
over() {
    { echo PETAL-SAID; cat said; } >"$port"
    echo "PETAL-OVER $1" >"$port"
    poweroff -f
}
date -s "@$now" >/dev/null
mount -t ext4 -o noatime /dev/vda /mnt >said 2>&1 || over 3
start >said 2>&1 || over 3
case $work in
load) petal -q setup -s 1 --scale 1024 --scan-table-sz 0 --db "$url" >said 2>&1 ;;
run)
    petal -q run -s 1 -t 2 --update-pct 100 --work-unit 4 --run-time 100000 --seed "$seed" $flags \
        --db "$url" --ledger "$port" >said 2>&1
    over $?
    ;;
verify)
    dd if=/dev/vdb bs=16k skip=1 2>/dev/null | head -c "$ledger_bytes" >ledger
    petal verify ledger --db "$url" --json >said 2>&1
    ;;
esac
status=$?
# A disk that nobody looks at need not be left in order.
if [ "$work" = load ] || [ "$keep" = yes ]; then
    stop >stopped 2>&1
    # A server may still be about to end.
    for _ in 0 1 2 3 4 5 6 7 8 9; do
        umount /mnt 2>>stopped && break
        sleep 0.5
    done
    ! grep -q ' /mnt ' /proc/mounts || { cat stopped >said; over 9; }
fi
over $status
