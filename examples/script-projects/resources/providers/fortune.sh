#!/bin/sh
# A provider reads what its scheme names: the URI is the first argument, what it prints is the content, and exit code 3
# says that there is nothing.
case "$1" in
fortune://today) echo "Today is a good day to write a script." ;;
fortune://monday) echo "Mondays are for reading." ;;
*)
	echo "no fortune at $1" >&2
	exit 3
	;;
esac
