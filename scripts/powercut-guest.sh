#!/bin/sh
# Downloads Debian's (or Ubuntu's) small kernel and busybox for the guest of `petal-powercut`, and unpacks
# them into a folder. Installs nothing, and needs no root.
#   sh scripts/powercut-guest.sh [DIR]      DIR: petal-guest
set -eu

folder=${1:-petal-guest}
mkdir -p "$folder"
cd "$folder"
# The newest kernel that the meta package asks for.
for meta in linux-image-cloud-amd64 linux-image-virtual linux-image-amd64; do
    kernel=$(apt-cache depends "$meta" 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p')
    if [ -n "$kernel" ]; then break; fi
done
if [ -z "$kernel" ]; then
    echo "apt knows no kernel package here: run apt-get update, or unpack one by hand into $folder" >&2
    exit 1
fi
apt-get download "$kernel" busybox-static
for package in ./*.deb; do dpkg-deb -x "$package" .; done
rm -f ./*.deb
