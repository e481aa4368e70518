#!/bin/sh
# Tries an installed Tidings as a newcomer would: its version, then the demo. Needs only a shell, so it runs in any fresh machine.
#   try.sh PROGRAM VERSION
program=$1
version=$2
data=$(mktemp -d)
export TIDINGS_DATA="$data/state"

look() {
	name=$1
	shift
	if said=$("$@" 2>&1); then
		echo "ok: $name"
	else
		echo "failed: $name"
		echo "$said"
	fi
}
has() {
	words=$1
	shift
	said=$("$@" 2>&1)
	echo "$said"
	case $said in *"$words"*) ;; *) return 1 ;; esac
}
is_up() {
	left=150
	until "$program" status >/dev/null 2>&1; do
		left=$((left - 1))
		[ "$left" -gt 0 ] || return 1
		kill -0 "$1" || return 1
		sleep 0.2
	done
}

look "tells its version" has "tidings $version" "$program" --version
"$program" serve --listen 127.0.0.1:0 >"$data/log" 2>&1 &
gateway=$!
look "serves the demo" is_up "$gateway"
look "the demo has tools" has "Says what it is told." "$program" tools
look "a tool of the demo is called" has "good morning" "$program" call echo "text=good morning"
look "a note of the demo is read" has "connect a client" "$program" read watch://notes/todo.md
# Whoever does not end is ended, and the status tells.
(
	sleep 20
	kill -9 "$gateway"
) >/dev/null 2>&1 &
guard=$!
kill "$gateway"
wait "$gateway"
look "ends when it is told to" [ $? -eq 0 ]
kill "$guard"
rm -rf "$data"
echo tried
