#!/bin/sh
# Runs petal on SQLite in a guest with qemu's NVMe drive, and prints the write ledger with the drive's
# health. Needs qemu-system-x86_64, cpio, mkfs.ext4, and the unpacked packages of powercut-guest.sh.
#   sh scripts/nvme-guest.sh [GUEST] [PETAL]      GUEST: petal-guest, PETAL: target/debug/petal
set -eu

guest=${1:-petal-guest}
petal=${2:-target/debug/petal}
kernel=$(ls "$guest"/boot/vmlinuz-* | tail -n 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
files=$work/files
for folder in bin proc sys dev mnt tmp; do mkdir -p "$files/$folder"; done
cp "$guest"/bin/busybox "$files/bin/" 2>/dev/null || cp "$guest"/usr/bin/busybox "$files/bin/"
cp "$petal" "$files/bin/petal"
for library in $(ldd "$petal" | grep -o '/[^ ]*'); do
    mkdir -p "$files$(dirname "$library")"
    cp -L "$library" "$files$library"
done
cat >"$files/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t ext4 /dev/nvme0n1 /mnt
petal setup --scale 16M --db sqlite:/mnt/data --quiet
petal run --update-pct 100 --work-unit 4 --run-time 20 --db sqlite:/mnt/data --out /tmp/out --quiet
sed -n '/^WRITE LEDGER/,/^I.O BY KIND/p' /tmp/out/*/report.txt
poweroff -f
INIT
chmod +x "$files/init"
(cd "$files" && find . | cpio -o -H newc --quiet) | gzip -1 >"$work/first.gz"
truncate -s 1G "$work/drive"
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$work/drive"
timeout 900 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -m 1024 -nographic -no-reboot -net none \
    -kernel "$kernel" -initrd "$work/first.gz" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check rdinit=/init" \
    -drive "file=$work/drive,if=none,format=raw,id=drive" -device nvme,serial=petal,drive=drive
