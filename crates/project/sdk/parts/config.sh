# Configuration of a tool: defaults, files and the environment, merged member by member.

# _mcp_config_source JSON|FILE: the text of one source, or nothing.
_mcp_config_source() {
	local text="${1:-}"
	case "${text}" in
	'') return 0 ;;
	[[:space:]]*'{'* | '{'*) ;;
	*)
		[ -r "${text}" ] || return 0
		text="$(cat "${text}")"
		;;
	esac
	if ! mcp_is_valid_json "${text}"; then
		_mcp_warn "mcp_config_load: not valid JSON, left out: ${2}"
		return 0
	fi
	printf '%s' "${text}"
}

# mcp_config_load [--env NAME] [--file FILE] [--example FILE] [--defaults JSON]: into MCP_CONFIG_JSON. The environment
# wins over the file, the file over the example, the example over the defaults.
mcp_config_load() {
	local variable='' file='' example='' defaults='' source text any=''
	while [ $# -gt 0 ]; do
		case "$1" in
		--env) variable="${2:-}" ;;
		--file) file="${2:-}" ;;
		--example) example="${2:-}" ;;
		--defaults) defaults="${2:-}" ;;
		*)
			_mcp_warn "mcp_config_load: what is $1?"
			return 1
			;;
		esac
		shift
		[ $# -lt 1 ] || shift
	done
	if [ -z "${variable}${file}${example}${defaults}" ]; then
		_mcp_warn "mcp_config_load: no source is named"
		return 1
	fi
	case "${variable}" in
	*[!A-Za-z0-9_]* | [0-9]*) variable='' ;;
	esac
	MCP_CONFIG_JSON=''
	for source in "${defaults}" "${example}" "${file}" "${variable:+${!variable:-}}"; do
		[ -n "${source}" ] || continue
		text="$(_mcp_config_source "${source}" "${source%%\{*}")"
		[ -n "${text}" ] || continue
		if [ -z "${any}" ]; then
			MCP_CONFIG_JSON="${text}"
			any=1
		else
			MCP_CONFIG_JSON="$(printf '%s\n%s' "${MCP_CONFIG_JSON}" "${text}" | _mcp_json -sc '.[0] + .[1]')" || return 1
		fi
	done
	[ -n "${MCP_CONFIG_JSON}" ] || MCP_CONFIG_JSON='{}'
	export MCP_CONFIG_JSON
}

# mcp_config_get PATH [--default VALUE]: a value; without a default it must be there.
mcp_config_get() {
	local typed
	typed="$(printf '%s' "${MCP_CONFIG_JSON:-null}" |
		_mcp_json -r "[(${1})?] | if length == 0 or .[0] == null then empty else .[0] | \"v\" + (if type == \"string\" then . else tojson end) end" 2>/dev/null)" || typed=''
	if [ -n "${typed}" ]; then
		printf '%s' "${typed#v}"
	elif [ "${2:-}" = --default ]; then
		printf '%s' "${3:-}"
	else
		return 1
	fi
}
