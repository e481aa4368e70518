#!/bin/sh
# Installs Tidings: fetches the archive for this machine, checks it against SHA256SUMS, and unpacks it.
#   TIDINGS_FROM  the folder or URL with the archives and SHA256SUMS (required until there are releases)
#   TIDINGS_TO    where to install [default: ~/.local]
#   TIDINGS_KEY   the public key ("ssh-ed25519 …") that must have signed SHA256SUMS; needs ssh-keygen
set -eu

fail() {
	echo "install.sh: $1" >&2
	exit 1
}

from=${TIDINGS_FROM:?set TIDINGS_FROM to the folder or URL that has SHA256SUMS and the archives}
to=${TIDINGS_TO:-$HOME/.local}
case "$(uname -s)-$(uname -m)" in
Linux-x86_64) target='x86_64-unknown-linux-[a-z]*' ;;
Linux-aarch64 | Linux-arm64) target='aarch64-unknown-linux-[a-z]*' ;;
Darwin-arm64) target=aarch64-apple-darwin ;;
Darwin-x86_64) target=x86_64-apple-darwin ;;
*) fail "there is no archive for $(uname -s) on $(uname -m); build it with cargo" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

fetch() {
	case "$from" in
	http://* | https://*) curl --connect-timeout 30 --max-time 1800 --fail --silent --show-error --location --output "$work/$1" "$from/$1" ;;
	*) cp "$from/$1" "$work/$1" ;;
	esac || fail "$from has no $1"
}

fetch SHA256SUMS
if [ -n "${TIDINGS_KEY:-}" ]; then
	fetch SHA256SUMS.sig
	echo "tidings-release $TIDINGS_KEY" >"$work/signers"
	ssh-keygen -Y verify -f "$work/signers" -I tidings-release -n file -s "$work/SHA256SUMS.sig" <"$work/SHA256SUMS" >/dev/null 2>&1 ||
		fail "SHA256SUMS is not signed by TIDINGS_KEY"
fi
archive=$(sed -n "s/^[0-9a-f]*  \(tidings-.*-$target\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS" | tail -n 1)
[ -n "$archive" ] || fail "SHA256SUMS names no archive for $target"
fetch "$archive"
wanted=$(sed -n "s/^\([0-9a-f]*\)  $archive\$/\1/p" "$work/SHA256SUMS")
if command -v sha256sum >/dev/null; then
	got=$(sha256sum "$work/$archive" | cut -d ' ' -f 1)
else
	got=$(shasum -a 256 "$work/$archive" | cut -d ' ' -f 1)
fi
[ "$got" = "$wanted" ] || fail "$archive is damaged: its SHA-256 is $got, and should be $wanted"

mkdir -p "$to/bin" "$to/share"
tar -xzf "$work/$archive" -C "$work"
folder=$work/${archive%.tar.gz}
# Renamed into place: a running gateway keeps the program it was started with.
cp "$folder/bin/tidings" "$to/bin/.tidings.new"
mv "$to/bin/.tidings.new" "$to/bin/tidings"
cp -R "$folder/share/." "$to/share/"
echo "Installed $("$to/bin/tidings" --version) as $to/bin/tidings"
case ":$PATH:" in
*":$to/bin:"*) ;;
*) echo "Add $to/bin to your PATH." ;;
esac
