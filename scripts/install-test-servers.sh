#!/bin/sh
# Installs what the integration tests start privately, from Debian's packages, where it is missing: the
# database servers (own data folder, own port, own user), PgBouncer, pgpool, HAProxy, Chromium, in which the HTML
# report is opened, Prometheus, which scrapes a run, strace, by which system calls are made to fail, the
# programs of btrfs, and Python and ip, by which outages are made. Where KVM can be used, also qemu, and
# a kernel for its guest in target/petal-guest. Never starts or configures a server. Where it cannot
# install, it says so and leaves it to the tests to skip, or with PETAL_TEST_REQUIRE=all to fail.
set -eu

missing=""
if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
    missing="$missing postgresql"
fi
if ! command -v pgbouncer >/dev/null && ! [ -x /usr/sbin/pgbouncer ]; then
    missing="$missing pgbouncer"
fi
if ! command -v pgpool >/dev/null && ! [ -x /usr/sbin/pgpool ]; then
    missing="$missing pgpool2"
fi
# A proxy that closes idle connections.
if ! command -v haproxy >/dev/null && ! [ -x /usr/sbin/haproxy ]; then
    missing="$missing haproxy"
fi
if ! command -v mariadbd >/dev/null && ! [ -x /usr/sbin/mariadbd ]; then
    missing="$missing mariadb-server"
fi
if ! command -v chromium >/dev/null && ! command -v google-chrome >/dev/null; then
    # Without a font a browser draws no letter.
    missing="$missing chromium fonts-dejavu-core"
fi
# The recipe for CI.
if ! command -v jq >/dev/null; then
    missing="$missing jq"
fi
if ! command -v strace >/dev/null; then
    missing="$missing strace"
fi
if ! command -v mkfs.btrfs >/dev/null && ! [ -x /usr/sbin/mkfs.btrfs ]; then
    missing="$missing btrfs-progs"
fi
# scripts/outage-repeats.py, and the networks that it cuts.
if ! command -v python3 >/dev/null; then
    missing="$missing python3"
fi
# The parser of tests/oracle/compose.yaml.
if ! python3 -c 'import yaml' 2>/dev/null && ! /usr/bin/python3 -c 'import yaml' 2>/dev/null; then
    missing="$missing python3-yaml"
fi
if ! command -v ip >/dev/null && ! [ -x /usr/sbin/ip ]; then
    missing="$missing iproute2"
fi
# It downloads other versions of servers (scripts/get-servers.py).
if ! command -v mvn >/dev/null; then
    missing="$missing maven"
fi
if ! command -v prometheus >/dev/null; then
    missing="$missing prometheus"
fi
# Only a processor that can virtualise runs the guest's stock kernel by KVM.
has_kvm() { grep -qw -e vmx -e svm /proc/cpuinfo && [ -w /dev/kvm ]; }
if has_kvm && ! command -v qemu-system-x86_64 >/dev/null; then
    missing="$missing qemu-system-x86"
fi
guest() {
    if has_kvm && ! [ -e target/petal-guest/boot ]; then
        sh "$(dirname "$0")/powercut-guest.sh" target/petal-guest
    fi
}
if [ -z "$missing" ]; then
    guest
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "not installed:$missing, and only root on Debian can do so here: their tests are skipped" >&2
    exit 0
fi
# Debian's package would start a cluster of its own on the default port.
mkdir -p /etc/postgresql-common
if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
    echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
fi
# MariaDB's, PgBouncer's, pgpool's, HAProxy's and Prometheus' would start one at once: this is how a package asks whether it may.
if [ ! -e /usr/sbin/policy-rc.d ]; then
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod +x /usr/sbin/policy-rc.d
fi
apt-get update -q
# shellcheck disable=SC2086 # a list of names
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
guest
