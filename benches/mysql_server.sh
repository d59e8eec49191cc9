# A private MariaDB server for the benchmarks beside this file, which source it: own folder below
# /var/tmp, own socket and user, removed at the end. Needs root or an ordinary user.
#
#   start_server SETTING...    sets folder, server (its process) and url (of the database bench)

folder=$(mktemp -d /var/tmp/petal-bench-XXXXXX)
chmod 755 "$folder"
as=() && [ "$(id -u)" = 0 ] && { chown mysql "$folder"; as=(runuser -u mysql --); }
server=
stop() { [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true; sleep 0.2; rm -rf "$folder"; }
trap stop EXIT

start_server() {
    "${as[@]}" mariadb-install-db --no-defaults --datadir="$folder/data" --tmpdir="$folder" \
        --auth-root-authentication-method=normal --skip-test-db >/dev/null
    "${as[@]}" mariadbd --no-defaults --datadir="$folder/data" --socket="$folder/s.sock" \
        --pid-file="$folder/pid" --tmpdir="$folder" --skip-networking \
        --innodb-flush-method=O_DIRECT --performance-schema=ON "$@" >"$folder/log" 2>&1 &
    until mariadb --no-defaults -u root -S "$folder/s.sock" -e \
        'CREATE DATABASE IF NOT EXISTS bench' 2>/dev/null; do sleep 0.2; done
    server=$(cat "$folder/pid")
    url="mysql://root@localhost/bench?socket=$folder/s.sock"
}

# Processor time of the server so far, in clock ticks.
server_ticks() { awk '{print $14 + $15}' "/proc/$server/stat"; }
