#!/bin/sh
# Installs the servers that the integration tests start privately (own data folder, own port, own
# user), from Debian's packages, where they are missing. Never starts or configures a server.
# Where it cannot install, it says so and leaves it to the tests to skip, or with
# PETAL_TEST_REQUIRE=all to fail.
set -eu

if ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "PostgreSQL is not installed, and only root on Debian can do so here: its tests are skipped" >&2
    exit 0
fi
# Debian's package would start a cluster of its own on the default port.
mkdir -p /etc/postgresql-common
if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
    echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
fi
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends postgresql
