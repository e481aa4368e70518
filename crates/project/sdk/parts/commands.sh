# Running other programs.

# _mcp_milliseconds SECONDS: 1.5 is 1500.
_mcp_milliseconds() {
	local whole="${1%%.*}" part=''
	case "$1" in *.*) part="${1#*.}" ;; esac
	part="${part}000"
	printf '%s' "$((10#${whole:-0} * 1000 + 10#${part:0:3}))"
}

# mcp_with_retry ATTEMPTS SECONDS -- COMMAND...: again after a pause that doubles. Exit codes 0, 1 and 2 are final.
mcp_with_retry() {
	local attempts="${1:-1}" pause attempt=1 code wait
	pause="$(_mcp_milliseconds "${2:-1}")"
	shift 2
	[ "${1:-}" != -- ] || shift
	while :; do
		code=0
		"$@" || code=$?
		if [ "${code}" -le 2 ] || [ "${attempt}" -ge "${attempts}" ]; then
			return "${code}"
		fi
		wait=$((pause + RANDOM % (pause / 4 + 1)))
		mcp_log_debug mcp_with_retry "attempt ${attempt} of ${attempts} ended with ${code}; again in ${wait} ms"
		sleep "$((wait / 1000)).$(printf '%03d' $((wait % 1000)))"
		pause=$((pause * 2))
		attempt=$((attempt + 1))
	done
}

# mcp_extract_cli_error STDOUT STDERR EXIT_CODE: the words a program used for its failure.
mcp_extract_cli_error() {
	local message
	message="$(printf '%s' "${1:-}" | _mcp_json -rs '
		if length == 1 and (.[0] | type) == "object" and .[0].success != true and .[0].ok != true then .[0] else {} end
		| def text: if type == "string" and . != "" then . else empty end;
		first(
			(.error | objects | .message | text),
			(.error | text),
			(if .success == false or .ok == false then .message | text else empty end),
			(.errors | arrays | .[0] | objects | .message | text),
			""
		)' 2>/dev/null)" || message=''
	if [ -n "${message}" ]; then
		printf '%s' "${message}"
	elif [ -n "${2:-}" ]; then
		printf '%s' "$2"
	else
		printf 'the command failed with exit code %s' "${3:-unknown}"
	fi
}

# _mcp_progress_line LINE: one line of a program; succeeds if it speaks of progress. The options are in _mcp_run_*.
_mcp_progress_line() {
	local line="$1" value='' message='' typed total
	[[ "${line}" =~ ${_mcp_run_pattern} ]] || return 1
	case "${_mcp_run_extract}" in
	match1)
		value="${BASH_REMATCH[1]:-}"
		value="${value%%.*}"
		if [ -n "${_mcp_run_total}" ] && _mcp_is_integer "${value}" && [ "${_mcp_run_total}" -gt 0 ]; then
			value=$((value * 100 / _mcp_run_total))
		fi
		message="${line}"
		;;
	ratio)
		value="${BASH_REMATCH[1]:-}"
		total="${BASH_REMATCH[2]:-}"
		if _mcp_is_integer "${value}" && _mcp_is_integer "${total}" && [ "${total}" -gt 0 ]; then
			value=$((10#${value} * 100 / 10#${total}))
		else
			value=''
		fi
		message="${line}"
		;;
	*)
		typed="$(printf '%s' "${line}" | _mcp_json -r '"\(.progress // "" | if type == "number" then floor else . end) \(.message // "")"' 2>/dev/null)" || typed=' '
		value="${typed%% *}"
		message="${typed#* }"
		;;
	esac
	if ! _mcp_is_integer "${value}"; then
		# A sign of life, though no number.
		if [ -n "${MCP_PROGRESS_STREAM:-}" ]; then
			printf '{"method":"notifications/progress","params":{}}\n' >>"${MCP_PROGRESS_STREAM}" 2>/dev/null || true
		fi
		return 0
	fi
	if [ -n "${_mcp_run_dry}" ]; then
		printf '{"progress":%s,"message":%s}\n' "${value}" "$(_mcp_quote "${message}")" >&2
	else
		mcp_progress "${value}" "${message}"
	fi
}

# mcp_run_with_progress --pattern REGEX [--extract json|match1|ratio] [--stdout FILE] [--stderr-file FILE]
#   [--progress-file FILE] [--total N] [--interval S] [--dry-run] [--quiet] -- COMMAND...
# Runs a program and passes on the progress that it prints on standard error (or into a file).
mcp_run_with_progress() {
	local _mcp_run_pattern='' _mcp_run_extract=json _mcp_run_total='' _mcp_run_dry='' out='' errors='' file='' quiet='' interval=0.2
	local line code=0 folder pid seen=0 count
	while [ $# -gt 0 ]; do
		case "$1" in
		--pattern) _mcp_run_pattern="${2:-}" && shift ;;
		--extract) _mcp_run_extract="${2:-json}" && shift ;;
		--stdout) out="${2:-}" && shift ;;
		--stderr-file) errors="${2:-}" && shift ;;
		--progress-file) file="${2:-}" && shift ;;
		--total) _mcp_run_total="${2:-}" && shift ;;
		--interval) interval="${2:-0.2}" && shift ;;
		--dry-run) _mcp_run_dry=1 ;;
		--quiet) quiet=1 ;;
		--)
			shift
			break
			;;
		*)
			_mcp_warn "mcp_run_with_progress: what is $1?"
			return 2
			;;
		esac
		shift
	done
	if [ -z "${_mcp_run_pattern}" ] || [ $# -eq 0 ]; then
		_mcp_warn "mcp_run_with_progress: --pattern and a command after -- are needed"
		return 2
	fi
	if [ -n "${file}" ]; then
		: >"${file}"
		if [ -n "${out}" ]; then "$@" >"${out}" & else "$@" & fi
		pid=$!
		while :; do
			code=1
			kill -0 "${pid}" 2>/dev/null && code=0
			count=0
			while IFS= read -r line; do
				count=$((count + 1))
				[ "${count}" -gt "${seen}" ] || continue
				seen="${count}"
				_mcp_progress_line "${line}" || true
			done <"${file}"
			[ "${code}" = 0 ] || break
			sleep "${interval}"
		done
		code=0
		wait "${pid}" || code=$?
		return "${code}"
	fi
	folder="$(mktemp -d)" || return 1
	mkfifo "${folder}/errors"
	if [ -n "${out}" ]; then "$@" >"${out}" 2>"${folder}/errors" & else "$@" 2>"${folder}/errors" & fi
	pid=$!
	# Programs that draw a bar end their lines with a carriage return.
	while IFS= read -r line || [ -n "${line}" ]; do
		if ! _mcp_progress_line "${line}"; then
			if [ -n "${errors}" ]; then
				printf '%s\n' "${line}" >>"${errors}"
			elif [ -z "${quiet}" ]; then
				printf '%s\n' "${line}" >&2
			fi
		fi
	done < <(tr '\r' '\n' <"${folder}/errors")
	wait "${pid}" || code=$?
	rm -rf "${folder}"
	return "${code}"
}
