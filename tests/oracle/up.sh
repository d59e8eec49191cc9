#!/bin/sh
# Starts an Oracle Database in a container and waits until petal can log on: sh tests/oracle/up.sh free23
# The others are in compose.yaml. PETAL_ORACLE_PORT: another port than 1521. ENGINE: podman, else docker.
set -eu
database=${1:-free23}
engine=${ENGINE:-docker}
cd "$(dirname "$0")"

# The container's user is none of this host's: it reads only what all may read, also in a private clone.
files=$(mktemp -d "${TMPDIR:-/tmp}/petal-oracle.XXXXXX")
cp grants.sh ../../docs/engines/oracle-grants.sql "$files/"
chmod 755 "$files" "$files/grants.sh"
chmod 644 "$files/oracle-grants.sql"

is_taken() {
    python3 -c "import socket, sys; sys.exit(socket.socket().connect_ex(('127.0.0.1', $1)))"
}
port=${PETAL_ORACLE_PORT:-1521}
while is_taken "$port"; do
    echo "port $port is taken: trying the next one" >&2
    port=$((port + 1))
done

PETAL_ORACLE_PORT=$port PETAL_ORACLE_FILES=$files \
    "$engine" compose -f compose.yaml up -d --wait --wait-timeout 900 "$database"
case $database in
xe21) service=XEPDB1 ;;
*) service=FREEPDB1 ;;
esac
echo "ORACLE_PASSWORD=petal petal prove --db oracle://petal@localhost:$port/$service"
