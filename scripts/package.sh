#!/bin/sh
# Makes a .deb and a .tar.gz of petal in target/package: the program, its manual pages, completions for
# bash, zsh and fish, the docs and a commented slob.conf.
#
#   scripts/package.sh                    builds petal and packs it
#   GLIBC=2.28 scripts/package.sh         for systems from that C library on (needs cargo-zigbuild)
#   PETAL=FILE OUT=DIR scripts/package.sh packs that program
set -eu
cd "$(dirname "$0")/.."

arch=$(uname -m)
if [ -n "${PETAL:-}" ]; then
    petal=$PETAL
elif [ -n "${GLIBC:-}" ]; then
    cargo zigbuild --profile dist --locked --target "$arch-unknown-linux-gnu.$GLIBC"
    petal=target/$arch-unknown-linux-gnu/dist/petal
else
    cargo build --profile dist --locked
    petal=target/dist/petal
fi
out=${OUT:-target/package}
version=$("$petal" --version | cut -d' ' -f2)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

# What both packages hold.
docs() {
    mkdir -p "$1"
    cp README.md CHANGELOG.md LICENSE "$1"
    cp -r docs "$1"
    "$petal" help slob.conf >"$1/slob.conf"
}

# bin/, share/ below a folder, as both packages have them.
install_below() {
    mkdir -p "$1/bin" "$1/share/man" "$1/share/bash-completion/completions" \
        "$1/share/zsh/vendor-completions" "$1/share/fish/vendor_completions.d"
    install -m 755 "$petal" "$1/bin/petal"
    "$petal" man --out "$1/share/man/man1"
    gzip -9n "$1"/share/man/man1/*.1
    "$petal" completions bash >"$1/share/bash-completion/completions/petal"
    "$petal" completions zsh >"$1/share/zsh/vendor-completions/_petal"
    "$petal" completions fish >"$1/share/fish/vendor_completions.d/petal.fish"
}

mkdir -p "$out"
name=petal-$version-$arch-linux
install_below "$stage/$name"
docs "$stage/$name"
tar -C "$stage" --owner=0 --group=0 -czf "$out/$name.tar.gz" "$name"
echo "$out/$name.tar.gz"

if ! command -v dpkg-deb >/dev/null; then
    echo "no .deb: dpkg-deb is not there" >&2
    exit 0
fi
# The newest symbol that the program asks of the C library is the oldest version that serves.
glibc=$(strings "$petal" | grep -oE '^GLIBC_[0-9.]+$' | sort -uV | tail -n 1 | cut -d_ -f2)
deb=$stage/deb
install_below "$deb/usr"
docs "$deb/usr/share/doc/petal"
mv "$deb/usr/share/doc/petal/LICENSE" "$deb/usr/share/doc/petal/copyright"
mkdir "$deb/DEBIAN"
cat >"$deb/DEBIAN/control" <<CONTROL
Package: petal
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: the petal authors <petal@localhost>
Section: database
Priority: optional
Depends: libc6 (>= $glibc), libgcc-s1 | libgcc1
Installed-Size: $(du -sk "$deb/usr" | cut -f1)
Description: physical I/O that a platform sustains through its database
 petal implements the SLOB method for Oracle, PostgreSQL, MySQL, MariaDB, SQLite
 and the bare device: how much random I/O, at what latency, and what limits it.
CONTROL
file=$out/petal_${version}_$(dpkg --print-architecture).deb
dpkg-deb --root-owner-group --build "$deb" "$file" >/dev/null
echo "$file"
