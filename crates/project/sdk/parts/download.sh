# Downloads that can not be turned against the machine they run on: https only, hosts that were allowed, public
# addresses only, no redirects.

_mcp_download_error() {
	printf '{"success":false,"error":{"type":"%s","message":%s%s}}\n' "$1" "$(_mcp_quote "$2")" "${3:+,\"location\":$(_mcp_quote "$3")}"
}

# _mcp_private_address ADDRESS: whether it is not a public one.
_mcp_private_address() {
	case "$1" in
	0.* | 10.* | 127.* | 169.254.* | 192.168.* | 192.0.0.* | 192.0.2.* | 198.18.* | 198.19.* | 198.51.100.* | 203.0.113.*) return 0 ;;
	100.6[4-9].* | 100.[7-9][0-9].* | 100.1[01][0-9].* | 100.12[0-7].*) return 0 ;;
	172.1[6-9].* | 172.2[0-9].* | 172.3[01].*) return 0 ;;
	22[4-9].* | 23[0-9].* | 24[0-9].* | 25[0-5].*) return 0 ;;
	::* | 64:ff9b:* | 100:* | 2001:db8:* | 2002:* | 3fff:* | 5f00:*) return 0 ;;
	[fF][cCdDeEfF][0-9a-fA-F][0-9a-fA-F]:*) return 0 ;;
	*[!0-9a-fA-F.:]*) return 0 ;;
	*) return 1 ;;
	esac
}

# _mcp_host_listed HOST LIST: whether it is in a list with commas or spaces between its entries.
_mcp_host_listed() {
	local entry
	local IFS=$' ,\t\n'
	for entry in $2; do
		[ "${entry}" != "$1" ] || return 0
	done
	return 1
}

# mcp_download_safe --url URL --out FILE [--allow HOST]... [--deny HOST]... [--timeout S] [--max-bytes N]
#   [--retry N] [--retry-delay S] [--user-agent TEXT]: prints {"success": true, "bytes", "path"} or {"success": false,
#   "error": {"type", "message"}}. Never fails.
mcp_download_safe() {
	local url='' out='' allow="${MCPBASH_HTTPS_ALLOW_HOSTS:-}" deny="${MCPBASH_HTTPS_DENY_HOSTS:-}" address='' host port=443
	local timeout="${MCPBASH_HTTPS_TIMEOUT:-15}" max="${MCPBASH_HTTPS_MAX_BYTES:-10485760}" retry=1 delay=1 candidate answer code
	local agent="${MCPBASH_HTTPS_USER_AGENT:-tidings (tool-sdk)}"
	while [ $# -gt 0 ]; do
		case "$1" in
		--url) url="${2:-}" ;;
		--out) out="${2:-}" ;;
		--allow) allow="${allow} ${2:-}" ;;
		--deny) deny="${deny} ${2:-}" ;;
		--timeout) timeout="${2:-}" ;;
		--max-bytes) max="${2:-}" ;;
		--retry) retry="${2:-}" ;;
		--retry-delay) delay="${2:-}" ;;
		--user-agent) agent="${2:-}" ;;
		*)
			case "$1" in
			-*) _mcp_download_error invalid_params "Unknown option: $1" ;;
			*) _mcp_download_error invalid_params "Unexpected argument: $1" ;;
			esac
			return 0
			;;
		esac
		shift
		[ $# -lt 1 ] || shift
	done
	case "${url}" in
	https://?*) ;;
	'')
		_mcp_download_error invalid_url "--url is required"
		return 0
		;;
	*)
		_mcp_download_error invalid_url "URL must use https://"
		return 0
		;;
	esac
	if [ -z "${out}" ]; then
		_mcp_download_error invalid_params "--out is required"
		return 0
	fi
	case "${timeout}:${max}:${retry}:${delay}" in
	*[!0-9.:]* | :* | *::* | *: | *.*:*:*:* | *:*.*:*:* | *:*:*.*:*)
		_mcp_download_error invalid_params "--timeout, --max-bytes, --retry and --retry-delay are numbers"
		return 0
		;;
	esac
	if [ "${timeout}" -gt 60 ] || [ "${timeout}" -lt 1 ] || [ "${max}" -gt 20971520 ] || [ "${retry}" -lt 1 ]; then
		_mcp_download_error invalid_params "at most 60 seconds and 20971520 bytes, at least one attempt"
		return 0
	fi
	host="${url#https://}"
	host="${host%%[/?#]*}"
	case "${host}" in
	*@* | '' | \[*)
		_mcp_download_error host_blocked "Host blocked by policy: the URL must name a plain host"
		return 0
		;;
	*:*)
		port="${host##*:}"
		host="${host%%:*}"
		;;
	esac
	host="$(printf '%s' "${host}" | tr '[:upper:]' '[:lower:]')"
	case "${host}:${port}" in
	localhost:* | *.localhost:* | *.local:* | *.internal:* | *:*[!0-9]* | *: | *[!a-z0-9.-]*:*)
		_mcp_download_error host_blocked "Host blocked by policy: ${host} is not a public host"
		return 0
		;;
	0x* | *[!0-9.]*:*) ;;
	*.*.*.*:*)
		if _mcp_private_address "${host}"; then
			_mcp_download_error host_blocked "Host blocked by policy: ${host} is not a public address"
			return 0
		fi
		;;
	*)
		_mcp_download_error host_blocked "Host blocked by policy: ${host} is not a host name"
		return 0
		;;
	esac
	case "${host}" in
	0x*)
		_mcp_download_error host_blocked "Host blocked by policy: ${host} is not a host name"
		return 0
		;;
	esac
	if _mcp_host_listed "${host}" "${deny}"; then
		_mcp_download_error host_blocked "Host blocked by policy: ${host} is denied"
		return 0
	fi
	if [ "${MCPBASH_HTTPS_ALLOW_ALL:-false}" != true ] && ! _mcp_host_listed "${host}" "${allow}"; then
		_mcp_download_error host_blocked "Host blocked by policy: ${host} is not allowed; name it with --allow or in MCPBASH_HTTPS_ALLOW_HOSTS"
		return 0
	fi
	if ! command -v curl >/dev/null 2>&1 || ! command -v getent >/dev/null 2>&1; then
		_mcp_download_error provider_unavailable "curl and getent are needed to download"
		return 0
	fi
	# The address that was looked at is the one that is used.
	for candidate in $(getent ahosts "${host}" 2>/dev/null | while read -r address _; do printf '%s\n' "${address}"; done | sort -u); do
		if _mcp_private_address "${candidate}"; then
			_mcp_download_error host_blocked "Host blocked by policy: ${host} leads to ${candidate}, which is not a public address"
			return 0
		fi
		address="${candidate}"
	done
	if [ -z "${address}" ]; then
		_mcp_download_error network_error "Network request failed: ${host} is not known"
		return 0
	fi
	case "${address}" in *:*) address="[${address}]" ;; esac
	code=0
	answer="$(mcp_with_retry "${retry}" "${delay}" -- curl -sS --proto '=https' --max-redirs 0 --max-time "${timeout}" \
		--max-filesize "${max}" --resolve "${host}:${port}:${address}" -A "${agent}" -o "${out}" \
		-w '%{http_code} %{redirect_url}' "${url}" 2>/dev/null)" || code=$?
	if [ "${code}" = 63 ]; then
		rm -f "${out}"
		_mcp_download_error size_exceeded "Response exceeds max-bytes limit (${max})"
	elif [ "${code}" = 23 ]; then
		_mcp_download_error write_error "Could not write to output path: ${out}"
	elif [ "${code}" != 0 ]; then
		_mcp_download_error network_error "Network request failed: curl ended with ${code}"
	else
		case "${answer}" in
		3*) _mcp_download_error redirect "URL redirects - use canonical URL or add target to allowlist" "${answer#* }" ;;
		2*)
			code="$(wc -c <"${out}" 2>/dev/null | tr -d ' ')"
			if [ "${code:-0}" -gt "${max}" ]; then
				rm -f "${out}"
				_mcp_download_error size_exceeded "Response exceeds max-bytes limit (${max})"
			else
				printf '{"success":true,"bytes":%s,"path":%s}\n' "${code:-0}" "$(_mcp_quote "${out}")"
			fi
			;;
		*) _mcp_download_error network_error "Network request failed: the server answered ${answer%% *}" ;;
		esac
	fi
	return 0
}

# mcp_download_safe_or_fail ...: prints the path, or ends the tool with an error.
mcp_download_safe_or_fail() {
	local answer
	answer="$(mcp_download_safe "$@")"
	if printf '%s' "${answer}" | _mcp_json -e '.success' >/dev/null 2>&1; then
		printf '%s' "${answer}" | _mcp_json -r '.path'
	else
		mcp_fail_invalid_args "$(printf '%s' "${answer}" | _mcp_json -r '"Download failed (\(.error.type)): \(.error.message)"')"
	fi
}
