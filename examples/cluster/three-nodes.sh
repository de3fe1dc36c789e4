#!/bin/sh
# Three nodes on one machine, on a PostgreSQL of their own. Ctrl-C ends everything and removes the data.
#
#   examples/cluster/three-nodes.sh [path to segno]
#
# PostgreSQL refuses to run as root; run by root, this uses the user postgres for it.
set -eu

segno=${1:-target/debug/segno}
directory=$(mktemp -d)
database_port=${DATABASE_PORT:-7250}
port=${PORT:-7233} http_port=${HTTP_PORT:-8233} node_port=${NODE_PORT:-7301}

programs=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1 || true)
[ -n "$programs" ] || programs=$(dirname "$(command -v initdb)") || {
    echo "no PostgreSQL here: install Debian's package postgresql" >&2
    exit 69
}
as_user() {
    if [ "$(id -u)" = 0 ]; then su postgres -s /bin/sh -c "$*"; else sh -c "$*"; fi
}
if [ "$(id -u)" = 0 ]; then chown postgres "$directory"; fi

nodes=
end() {
    trap - EXIT INT TERM
    for node in $nodes; do kill "$node" 2>/dev/null || true; done
    for node in $nodes; do wait "$node" 2>/dev/null || true; done
    as_user "'$programs/pg_ctl' -D '$directory/data' -m fast stop" >/dev/null || true
    rm -rf "$directory"
}
trap end EXIT INT TERM

as_user "'$programs/initdb' -D '$directory/data' -U segno --auth=trust --encoding=UTF8 --locale=C" >/dev/null
as_user "'$programs/pg_ctl' -D '$directory/data' -w -l '$directory/log' \
    -o '-p $database_port -c listen_addresses=127.0.0.1 -k $directory' start" >/dev/null
as_user "'$programs/createdb' -h 127.0.0.1 -p $database_port -U segno segno"

number=0
for name in a b c; do
    "$segno" serve --store "postgres://segno@127.0.0.1:$database_port/segno" --node-name $name \
        --port $((port + 10 * number)) --http-port $((http_port + 10 * number)) \
        --node-listen 127.0.0.1:$((node_port + number)) &
    nodes="$nodes $!"
    number=$((number + 1))
done
# A heading and a line for each node.
tries=0
until [ "$("$segno" cluster status --address "127.0.0.1:$port" 2>/dev/null | wc -l)" -ge 4 ]; do
    tries=$((tries + 1))
    [ $tries -lt 60 ] || { echo "the nodes did not come together" >&2; exit 75; }
    sleep 1
done
"$segno" cluster status --address "127.0.0.1:$port"
echo "Three nodes: 127.0.0.1:$port, :$((port + 10)) and :$((port + 20))." \
    "Kill one and look at: $segno cluster status --address 127.0.0.1:$((port + 10))"
wait
