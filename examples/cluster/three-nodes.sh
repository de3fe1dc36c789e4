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

as_user "'$programs/initdb' -D '$directory/data' -U segno --auth=trust" >/dev/null
as_user "'$programs/pg_ctl' -D '$directory/data' -w -l '$directory/log' \
    -o '-p $database_port -c listen_addresses=127.0.0.1 -k $directory' start" >/dev/null
as_user "'$programs/createdb' -h 127.0.0.1 -p $database_port -U segno segno"

number=0
for name in a b c; do
    "$segno" serve --store "postgres://segno@127.0.0.1:$database_port/segno" --node-name $name \
        --port $((7233 + 10 * number)) --http-port $((8233 + 10 * number)) --node-listen 127.0.0.1:$((7301 + number)) &
    nodes="$nodes $!"
    number=$((number + 1))
done
sleep 8
"$segno" cluster status
echo "Three nodes: 127.0.0.1:7233, :7243 and :7253. Kill one and look at: $segno cluster status --address 127.0.0.1:7243"
wait
