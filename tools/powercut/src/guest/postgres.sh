url=postgres://postgres@127.0.0.1/postgres
flags='--loop client'
bin=$(echo /usr/lib/postgresql/*/bin)
server() { su postgres -c "$bin/pg_ctl -D /mnt/data -w -t 300 -l /tmp/server.log $*"; }
start() {
    if ! [ -e /mnt/data/PG_VERSION ]; then
        mkdir -p /mnt/data && chown postgres /mnt/data
        su postgres -c "$bin/initdb -D /mnt/data -N -A trust --no-locale -E UTF8 --wal-segsize=1" || return
    fi
    # All restored machines begin alike: the number of the server that was cut may be a new one's.
    rm -f /mnt/data/postmaster.pid
    # Smaller than the table: changed pages leave it before a checkpoint syncs them.
    options='-c listen_addresses=127.0.0.1 -c unix_socket_directories=/tmp -c shared_buffers=1MB'
    options="$options -c max_connections=20 -c max_wal_size=32MB -c min_wal_size=16MB"
    # Before it recovers, the server syncs every file; so it does it with one call.
    options="$options -c recovery_init_sync_method=syncfs"
    for setting in $settings; do options="$options -c $setting"; done
    server "-o '$options' start" || { tail -n 5 server.log; return 1; }
}
stop() { server -m fast stop; }
