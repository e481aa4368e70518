# Questions to the user in the middle of a call. Every helper prints {"action": ..., "content": ...}: accept, decline,
# cancel or error; content is there only with accept.

MCP_ELICIT_DEFAULT_TIMEOUT="${MCP_ELICIT_DEFAULT_TIMEOUT:-${MCPBASH_ELICITATION_TIMEOUT:-30}}"

# _mcp_ask REQUEST TIMEOUT: hands over the request and waits.
_mcp_ask() {
	local request="$1" tenths
	_mcp_is_integer "$2" || set -- "$1" 30
	tenths=$(($2 * 10))
	if [ "${MCP_ELICIT_SUPPORTED:-0}" != 1 ]; then
		_mcp_warn "mcp_elicit: Client does not support elicitation"
		printf '{"action":"decline","content":null}'
		return 1
	fi
	if [ -z "${MCP_ELICIT_REQUEST_FILE:-}" ] || [ -z "${MCP_ELICIT_RESPONSE_FILE:-}" ]; then
		_mcp_warn "mcp_elicit: Elicitation environment not configured (questions can be asked in tool calls only)"
		printf '{"action":"error","content":null}'
		return 1
	fi
	rm -f "${MCP_ELICIT_RESPONSE_FILE}"
	# It appears whole or not at all.
	printf '%s' "${request}" >"${MCP_ELICIT_REQUEST_FILE}.part"
	mv -f "${MCP_ELICIT_REQUEST_FILE}.part" "${MCP_ELICIT_REQUEST_FILE}"
	while [ ! -e "${MCP_ELICIT_RESPONSE_FILE}" ]; do
		if mcp_is_cancelled; then
			rm -f "${MCP_ELICIT_REQUEST_FILE}"
			printf '{"action":"cancel","content":null}'
			return 1
		fi
		if [ "${tenths}" -le 0 ]; then
			rm -f "${MCP_ELICIT_REQUEST_FILE}"
			_mcp_warn "mcp_elicit: Timeout waiting for user response"
			printf '{"action":"error","content":null}'
			return 1
		fi
		tenths=$((tenths - 1))
		sleep 0.1
	done
	cat "${MCP_ELICIT_RESPONSE_FILE}"
	rm -f "${MCP_ELICIT_RESPONSE_FILE}" "${MCP_ELICIT_REQUEST_FILE}"
}

# mcp_elicit MESSAGE SCHEMA [TIMEOUT_SECONDS] [MODE]
mcp_elicit() {
	local schema="${2:-}"
	[ -n "${schema}" ] || schema='{"type":"object","properties":{}}'
	_mcp_ask "{\"message\":$(_mcp_quote "$1"),\"schema\":${schema},\"mode\":$(_mcp_quote "${4:-form}")}" "${3:-${MCP_ELICIT_DEFAULT_TIMEOUT}}"
}

# mcp_elicit_url MESSAGE URL [TIMEOUT_SECONDS]: the user goes to a page; nothing of it passes through the client.
mcp_elicit_url() {
	_mcp_ask "{\"message\":$(_mcp_quote "$1"),\"url\":$(_mcp_quote "${2:-}"),\"mode\":\"url\"}" "${3:-${MCP_ELICIT_DEFAULT_TIMEOUT}}"
}

# _mcp_form NAME SCHEMA: an object with one required member.
_mcp_form() {
	printf '{"type":"object","properties":{%s:%s},"required":[%s]}' "$(_mcp_quote "$1")" "$2" "$(_mcp_quote "$1")"
}

# mcp_elicit_string MESSAGE [FIELD]: content.FIELD (value) is a text.
mcp_elicit_string() {
	mcp_elicit "$1" "$(_mcp_form "${2:-value}" '{"type":"string"}')"
}

# mcp_elicit_confirm MESSAGE: content.confirmed is true or false.
mcp_elicit_confirm() {
	mcp_elicit "$1" "$(_mcp_form confirmed '{"type":"boolean"}')"
}

# mcp_elicit_choice MESSAGE OPTION...: content.choice is one of them.
mcp_elicit_choice() {
	local message="$1"
	shift
	mcp_elicit "${message}" "$(_mcp_form choice "{\"type\":\"string\",\"enum\":$(mcp_json_arr "$@")}")"
}

# _mcp_titled VALUE:LABEL...: [{"const": VALUE, "title": LABEL}, ...]
_mcp_titled() {
	local out='' separator='' option
	for option in "$@"; do
		out="${out}${separator}{\"const\":$(_mcp_quote "${option%%:*}"),\"title\":$(_mcp_quote "${option#*:}")}"
		separator=','
	done
	printf '[%s]' "${out}"
}

# mcp_elicit_titled_choice MESSAGE VALUE:LABEL...: content.choice is one of the values.
mcp_elicit_titled_choice() {
	local message="$1"
	shift
	mcp_elicit "${message}" "$(_mcp_form choice "{\"type\":\"string\",\"oneOf\":$(_mcp_titled "$@")}")"
}

# mcp_elicit_multi_choice MESSAGE OPTION...: content.choices is an array of them.
mcp_elicit_multi_choice() {
	local message="$1"
	shift
	mcp_elicit "${message}" "$(_mcp_form choices "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"enum\":$(mcp_json_arr "$@")}}")"
}

# mcp_elicit_titled_multi_choice MESSAGE VALUE:LABEL...: content.choices is an array of values.
mcp_elicit_titled_multi_choice() {
	local message="$1"
	shift
	mcp_elicit "${message}" "$(_mcp_form choices "{\"type\":\"array\",\"items\":{\"anyOf\":$(_mcp_titled "$@")}}")"
}
