#!/bin/sh
# Starts an Oracle Database in a container and waits until petal can log on: sh tests/oracle/up.sh free23
# The others are in compose.yaml. PETAL_ORACLE_PORT: another port than 1521. ENGINE: podman, else docker.
set -eu
database=${1:-free23}
engine=${ENGINE:-docker}
cd "$(dirname "$0")"

case $database in
free | free23 | xe21) ;;
*)
    echo "$database: there is no such database; use free, free23 or xe21" >&2
    exit 2
    ;;
esac
port=${PETAL_ORACLE_PORT:-1521}
case $port in
'' | *[!0-9]* | 0* | ??????*)
    echo "PETAL_ORACLE_PORT=$port: is no port; give 1 to 65535" >&2
    exit 2
    ;;
esac

# The container's user is none of this host's: it reads only what all may read, also in a private clone.
# The container needs these copies for as long as it is there.
files=$PWD/mounted
mkdir -p "$files"
cp grants.sh ../../docs/engines/oracle-grants.sql "$files/"
chmod 755 "$files" "$files/grants.sh"
chmod 644 "$files/oracle-grants.sql"

is_taken() {
    [ "$1" -le 65535 ] && python3 -c "import socket, sys; sys.exit(socket.socket().connect_ex(('127.0.0.1', $1)))"
}
while is_taken "$port"; do
    echo "port $port is taken: trying the next one" >&2
    port=$((port + 1))
done
if [ "$port" -gt 65535 ]; then
    echo "PETAL_ORACLE_PORT: no port is free from there to 65535" >&2
    exit 2
fi

PETAL_ORACLE_PORT=$port PETAL_ORACLE_FILES=$files \
    "$engine" compose -f compose.yaml up -d --wait --wait-timeout 900 "$database"
case $database in
xe21) service=XEPDB1 ;;
*) service=FREEPDB1 ;;
esac
echo "ORACLE_PASSWORD=petal petal prove --db oracle://petal@localhost:$port/$service"
