#!/bin/sh
# Stands in for the gateway: writes the file that says where it listens (here: at $STAND_IN_URL), then waits.
while [ $# -gt 0 ]; do
    case "$1" in
        --data) data="$2"; shift ;;
        --config) config="$2"; shift ;;
    esac
    shift
done
echo "stand-in with $(grep -c '^\[servers' "$config") servers" >&2
echo "{\"url\": \"$STAND_IN_URL\", \"pid\": $$}" > "$data/gateway.json.new"
mv "$data/gateway.json.new" "$data/gateway.json"
exec sleep 60
