# Roots, and paths inside them.

# mcp_roots_list: one path per line. mcp_roots_count: how many.
mcp_roots_list() {
	printf '%s' "${MCP_ROOTS_PATHS:-}"
}

mcp_roots_count() {
	printf '%s' "${MCP_ROOTS_COUNT:-0}"
}

# _mcp_canonical PATH: absolute, without links and dots, also for what does not exist yet.
_mcp_canonical() {
	local path="$1" rest='' part resolved
	case "${path}" in
	/*) ;;
	*) path="${PWD}/${path}" ;;
	esac
	# What exists is resolved by the system; what does not has no links in it.
	while [ ! -e "${path}" ] && [ -n "${path%/*}" ]; do
		rest="${path##*/}/${rest}"
		path="${path%/*}"
	done
	if [ -d "${path:-/}" ]; then
		resolved="$(cd "${path:-/}" 2>/dev/null && pwd -P)" || return 1
	elif [ -L "${path}" ]; then
		resolved="$(readlink -f -- "${path}" 2>/dev/null)" || return 1
	else
		resolved="$(cd "${path%/*}/" 2>/dev/null && pwd -P)/${path##*/}" || return 1
	fi
	while [ -n "${rest}" ]; do
		part="${rest%%/*}"
		rest="${rest#*/}"
		case "${part}" in
		'' | .) ;;
		..) resolved="${resolved%/*}" ;;
		*) resolved="${resolved%/}/${part}" ;;
		esac
	done
	printf '%s' "${resolved:-/}"
}

# mcp_roots_contains PATH: whether it is a root or inside one.
mcp_roots_contains() {
	local path root
	path="$(_mcp_canonical "${1:-}")" || return 1
	while IFS= read -r root || [ -n "${root}" ]; do
		[ -n "${root}" ] || continue
		root="$(_mcp_canonical "${root}")" || continue
		case "${path}/" in
		"${root%/}"/*) return 0 ;;
		esac
	done <<EOF
${MCP_ROOTS_PATHS:-}
EOF
	return 1
}

# mcp_require_path POINTER [--default-to-single-root] [--allow-empty]: a path argument, canonical and inside the roots.
mcp_require_path() {
	local pointer="$1" single='' empty='' path
	shift
	while [ $# -gt 0 ]; do
		case "$1" in
		--default-to-single-root) single=1 ;;
		--allow-empty) empty=1 ;;
		esac
		shift
	done
	path="$(mcp_args_get "(${pointer}) // \"\"")" || path=''
	if [ -z "${path}" ] && [ -n "${single}" ] && [ "$(mcp_roots_count)" = 1 ]; then
		path="$(mcp_roots_list)"
	fi
	if [ -z "${path}" ]; then
		[ -z "${empty}" ] || return 0
		mcp_fail_invalid_args "${pointer} is required"
	fi
	if [ "$(mcp_roots_count)" != 0 ] && ! mcp_roots_contains "${path}"; then
		mcp_fail_invalid_args "${pointer} is outside configured MCP roots: ${path}"
	fi
	_mcp_canonical "${path}" || mcp_fail_invalid_args "${pointer} can not be resolved: ${path}"
}
