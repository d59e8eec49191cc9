#!/bin/busybox sh
# The guest's first program: prepares all that needs no disk, and waits for an order on /dev/vdb. The
# machine is saved while it waits, and restored for every order.
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /mnt /tmp
mount -t tmpfs shm /dev/shm
chmod 1777 /tmp /dev/shm
# Twice: which one needs the other differs from kernel to kernel.
for module in /modules/* /modules/*; do insmod "$module" 2>/dev/null; done
if ! [ -b /dev/vdb ]; then
    echo the guest has no disk: its kernel lacks a module
    poweroff -f
fi
ip link set lo up
# What was written and not synced reaches the disk soon, so that a cut finds some of it in the disk's cache.
echo 10 >/proc/sys/vm/dirty_writeback_centisecs
echo 10 >/proc/sys/vm/dirty_expire_centisecs
export HOME=/ TZ=UTC NO_OS_PERF_DATA=TRUE OUT=/tmp
port=$(echo /dev/vport*)
cd /tmp || exit
echo PETAL-READY >"$port"
until [ -s order ]; do
    blockdev --flushbufs /dev/vdb
    dd if=/dev/vdb bs=16k count=1 2>/dev/null | tr -d '\000' >order
    [ -s order ] || sleep 0.1
done
blockdev --flushbufs /dev/vda
. ./order
poweroff -f
