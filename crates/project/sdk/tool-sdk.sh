#!/usr/bin/env bash
# Helpers for the scripts of a project: source "$MCP_SDK/tool-sdk.sh".
#
# Works with bash 3.2 and later, with or without `set -euo pipefail`. JSON is read and made by `jq`, `gojq`, or what
# Tidings brings itself; which of them is in MCPBASH_JSON_TOOL_BIN.

# Sourcing twice does nothing.
if [ -n "${_MCP_SDK_LOADED:-}" ]; then
	return 0
fi
_MCP_SDK_LOADED=1
_MCP_SDK_DIR="${MCP_SDK:-}"
if [ -z "${_MCP_SDK_DIR}" ]; then
	_MCP_SDK_DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
fi

# The JSON tool: what the runner chose, else the first that is there.
if [ -z "${MCPBASH_JSON_TOOL_BIN:-}" ]; then
	MCPBASH_JSON_TOOL_BIN="$(command -v jq || command -v gojq || printf '%s' "${_MCP_SDK_DIR}/bin/jq")"
fi

_mcp_json() {
	"${MCPBASH_JSON_TOOL_BIN}" "$@"
}

_mcp_warn() {
	printf 'tool-sdk: %s\n' "$*" >&2
}

# _mcp_quote TEXT: the text as a JSON string, without starting a process.
_mcp_quote() {
	local text="$1" out='' code i
	local LC_ALL=C
	text=${text//\\/\\\\}
	text=${text//\"/\\\"}
	text=${text//$'\n'/\\n}
	text=${text//$'\r'/\\r}
	text=${text//$'\t'/\\t}
	case "${text}" in
	*[$'\001'-$'\037'$'\177']*)
		for ((i = 0; i < ${#text}; i++)); do
			case "${text:i:1}" in
			[$'\001'-$'\037'$'\177'])
				printf -v code '%d' "'${text:i:1}"
				printf -v code '\\u%04x' "${code}"
				out="${out}${code}"
				;;
			*) out="${out}${text:i:1}" ;;
			esac
		done
		text="${out}"
		;;
	esac
	printf '"%s"' "${text}"
}

_mcp_is_integer() {
	case "${1#-}" in
	'' | *[!0-9]*) return 1 ;;
	*) return 0 ;;
	esac
}

# --- Arguments --------------------------------------------------------------------------------------------------------

# _mcp_payload TEXT FILE: what came in a file, else what came in the environment. Values never show up in a trace.
_mcp_payload() {
	if [ -n "$2" ] && [ -r "$2" ]; then
		cat "$2"
	elif [ -n "$1" ]; then
		printf '%s' "$1"
	else
		printf '{}'
	fi
}

# mcp_args_raw: the arguments as one JSON object.
mcp_args_raw() {
	(
		{ set +x; } 2>/dev/null
		_mcp_payload "${MCP_TOOL_ARGS_JSON:-}" "${MCP_TOOL_ARGS_FILE:-}"
	)
}

# mcp_args_get FILTER: what the filter makes of the arguments, raw.
mcp_args_get() {
	mcp_args_raw | _mcp_json -r "${1:-.}"
}

# mcp_meta_raw, mcp_meta_get FILTER: the same for the request's _meta.
mcp_meta_raw() {
	(
		{ set +x; } 2>/dev/null
		_mcp_payload "${MCP_TOOL_META_JSON:-}" "${MCP_TOOL_META_FILE:-}"
	)
}

mcp_meta_get() {
	mcp_meta_raw | _mcp_json -r "${1:-.}"
}

# _mcp_args_typed POINTER: "type:value" of an argument, or nothing when it is missing or null.
_mcp_args_typed() {
	mcp_args_raw | _mcp_json -r "[(${1})] | if length == 0 or .[0] == null then empty else .[0] | \"\\(type):\\(.)\" end"
}

# mcp_args_require POINTER [MESSAGE]: a value that must be there.
mcp_args_require() {
	local typed
	typed="$(_mcp_args_typed "$1")" || mcp_fail_invalid_args "arguments can not be read"
	if [ -z "${typed}" ]; then
		mcp_fail_invalid_args "${2:-$1 is required}"
	fi
	printf '%s' "${typed#*:}"
}

# mcp_args_bool POINTER [--default true|false]: "true" or "false".
mcp_args_bool() {
	local pointer="$1" default='' typed
	shift
	while [ $# -gt 0 ]; do
		case "$1" in
		--default)
			default="${2:-}"
			shift
			;;
		esac
		shift
	done
	typed="$(_mcp_args_typed "${pointer}")" || typed=''
	if [ -z "${typed}" ]; then
		[ -n "${default}" ] || mcp_fail_invalid_args "${pointer} is required"
		typed="default:${default}"
	fi
	case "${typed#*:}" in
	true | 1) printf 'true' ;;
	*) printf 'false' ;;
	esac
}

# mcp_args_int POINTER [--default N] [--min N] [--max N]: a whole number within bounds.
mcp_args_int() {
	local pointer="$1" default='' min='' max='' typed value
	shift
	while [ $# -gt 0 ]; do
		case "$1" in
		--default) default="${2:-}" && shift ;;
		--min) min="${2:-}" && shift ;;
		--max) max="${2:-}" && shift ;;
		esac
		shift
	done
	typed="$(_mcp_args_typed "${pointer}")" || typed=''
	if [ -z "${typed}" ]; then
		[ -n "${default}" ] || mcp_fail_invalid_args "${pointer} is required"
		typed="default:${default}"
	fi
	value="${typed#*:}"
	case "${value}" in *.0) value="${value%.0}" ;; esac
	_mcp_is_integer "${value}" || mcp_fail_invalid_args "${pointer} must be an integer"
	if [ -n "${min}" ] && [ "${value}" -lt "${min}" ]; then
		mcp_fail_invalid_args "${pointer} must be >= ${min}"
	fi
	if [ -n "${max}" ] && [ "${value}" -gt "${max}" ]; then
		mcp_fail_invalid_args "${pointer} must be <= ${max}"
	fi
	printf '%s' "${value}"
}

# --- Making JSON ------------------------------------------------------------------------------------------------------

# mcp_json_escape TEXT: a JSON string, quotes included.
mcp_json_escape() {
	_mcp_quote "${1:-}"
}

# mcp_json_obj NAME VALUE...: an object of strings.
mcp_json_obj() {
	local out='' separator=''
	if [ $(($# % 2)) -ne 0 ]; then
		mcp_fail -32603 "mcp_json_obj takes names and values in pairs; it got $# arguments"
	fi
	while [ $# -gt 0 ]; do
		out="${out}${separator}$(_mcp_quote "$1"):$(_mcp_quote "$2")"
		separator=','
		shift 2
	done
	printf '{%s}' "${out}"
}

# mcp_json_arr VALUE...: an array of strings.
mcp_json_arr() {
	local out='' separator='' value
	for value in "$@"; do
		out="${out}${separator}$(_mcp_quote "${value}")"
		separator=','
	done
	printf '[%s]' "${out}"
}

# mcp_is_valid_json TEXT: whether it is exactly one JSON value.
mcp_is_valid_json() {
	printf '%s' "${1:-}" | _mcp_json -es 'length == 1' >/dev/null 2>&1
}

# mcp_byte_length TEXT: its length in bytes.
mcp_byte_length() {
	local LC_ALL=C
	local text="${1:-}"
	printf '%s' "${#text}"
}

# --- Ending with an error ---------------------------------------------------------------------------------------------

# mcp_fail [CODE] MESSAGE [DATA]: end with a JSON-RPC error.
mcp_fail() {
	local code='-32603' message data
	if _mcp_is_integer "${1:-}"; then
		code="$1"
		shift
	fi
	message="${1:-Tool failed}"
	data="${2:-}"
	if [ -n "${data}" ] && ! mcp_is_valid_json "${data}"; then
		data="$(_mcp_quote "${data}")"
	fi
	if [ -n "${MCP_TOOL_ERROR_FILE:-}" ]; then
		printf '{"code":%s,"message":%s,"data":%s}\n' "${code}" "$(_mcp_quote "${message}")" "${data:-null}" \
			>"${MCP_TOOL_ERROR_FILE}" 2>/dev/null || true
	fi
	printf '%s\n' "${message}" >&2
	exit 1
}

# mcp_fail_invalid_args MESSAGE [DATA]: the caller's arguments are wrong.
mcp_fail_invalid_args() {
	mcp_fail -32602 "${1:-Invalid params}" "${2:-}"
}

# --- Progress, cancellation, logging ------------------------------------------------------------------------------------

# mcp_is_cancelled: whether the caller has given up.
mcp_is_cancelled() {
	local file="${MCP_TOOL_CANCELLATION_FILE:-${MCP_CANCEL_FILE:-}}"
	[ -n "${file}" ] && [ -e "${file}" ]
}

# mcp_progress PERCENT [MESSAGE] [TOTAL]: how far the work is; nothing happens when nobody asked for it.
mcp_progress() {
	local percent="${1%%.*}" token="${MCP_PROGRESS_TOKEN:-}" extra=''
	if [ -z "${token}" ] || [ -z "${MCP_PROGRESS_STREAM:-}" ]; then
		return 0
	fi
	_mcp_is_integer "${percent}" || percent=0
	[ "${percent}" -ge 0 ] || percent=0
	[ "${percent}" -le 100 ] || percent=100
	_mcp_is_integer "${token}" || token="$(_mcp_quote "${token}")"
	if [ -n "${3:-}" ] && _mcp_is_integer "$3"; then
		extra=",\"total\":$3"
	fi
	if [ -n "${2:-}" ]; then
		extra="${extra},\"message\":$(_mcp_quote "$2")"
	fi
	printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%s%s}}\n' \
		"${token}" "${percent}" "${extra}" >>"${MCP_PROGRESS_STREAM}" 2>/dev/null || true
}

# mcp_log LEVEL LOGGER DATA: a log message for the client; DATA is JSON.
mcp_log() {
	local level logger="${2:-}" data="${3:-null}"
	level="$(printf '%s' "${1:-info}" | tr '[:upper:]' '[:lower:]')"
	case "${level}" in
	debug | info | notice | warning | error | critical | alert | emergency) ;;
	warn) level=warning ;;
	*)
		_mcp_warn "mcp_log: no such level: ${1:-}; info is used"
		level=info
		;;
	esac
	if [ -z "${MCP_LOG_STREAM:-}" ]; then
		return 0
	fi
	printf '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"%s","logger":%s,"data":%s}}\n' \
		"${level}" "$(_mcp_quote "${logger}")" "${data}" >>"${MCP_LOG_STREAM}" 2>/dev/null || true
}

# mcp_log_LEVEL LOGGER TEXT
mcp_log_debug() { mcp_log debug "${1:-}" "$(_mcp_quote "${2:-}")"; }
mcp_log_info() { mcp_log info "${1:-}" "$(_mcp_quote "${2:-}")"; }
mcp_log_warn() { mcp_log warning "${1:-}" "$(_mcp_quote "${2:-}")"; }
mcp_log_error() { mcp_log error "${1:-}" "$(_mcp_quote "${2:-}")"; }

# mcp_debug TEXT...: a line in the call's own debug file.
mcp_debug() {
	if [ -n "${MCPBASH_DEBUG_LOG:-}" ]; then
		printf '[%s] %s\n' "$(date +%H:%M:%S)" "$*" >>"${MCPBASH_DEBUG_LOG}" 2>/dev/null || true
	fi
}

for _mcp_part in results paths ask config commands download; do
	# shellcheck source=/dev/null
	. "${_MCP_SDK_DIR}/parts/${_mcp_part}.sh"
done
unset _mcp_part
