# Results in the shape that clients expect.

# mcp_emit_text TEXT: plain text.
mcp_emit_text() {
	printf '%s' "${1:-}"
}

# mcp_emit_json JSON: JSON on one line; what is no JSON goes out as it is.
mcp_emit_json() {
	printf '%s' "${1:-}" | _mcp_json -c . 2>/dev/null || printf '%s' "${1:-}"
}

# mcp_result_success JSON [MAX_TEXT_BYTES]: a result with structuredContent {success: true, result}. The text says the
# same, or how much there is when it would be too long. Never fails: what is no JSON becomes an error result.
mcp_result_success() {
	local max="${2:-${MCPBASH_MAX_TEXT_BYTES:-102400}}"
	case "${max}" in '' | *[!0-9]*) max=102400 ;; esac
	if printf '%s' "${1:-}" | _mcp_json -sec --argjson max "${max}" '
		if length != 1 then error("count") else .[0] end
		| {success: true, result: .} as $all
		| ($all | tojson) as $text
		| {
			content: [{type: "text", text: (
				if ($text | utf8bytelength) <= $max then $text
				else "Success: \(type) of \(if type == "array" or type == "object" then "\(length) entries" else "\(tojson | utf8bytelength) bytes" end); see structuredContent"
				end
			)}],
			structuredContent: $all,
			isError: false
		}' 2>/dev/null; then
		return 0
	fi
	local message='Invalid JSON passed to mcp_result_success'
	if [ -z "${1:-}" ]; then
		message='Empty data passed to mcp_result_success'
	elif printf '%s' "$1" | _mcp_json -es 'length > 1' >/dev/null 2>&1; then
		message='Input contained multiple JSON values'
	fi
	mcp_error internal_error "${message}"
}

# mcp_result_error JSON: an error that a model can act on: isError, structuredContent {success: false, error}. Never fails.
mcp_result_error() {
	printf '%s' "${1:-}" | _mcp_json -sec '
		if length == 1 then .[0] else error("count") end
		| (if type == "object" then . else {type: "internal_error", message: (if type == "string" then . else tojson end), raw: .} end) as $error
		| {
			content: [{type: "text", text: ($error | (.message // .error // tojson) | if type == "string" then . else tojson end)}],
			structuredContent: {success: false, error: $error},
			isError: true
		}' 2>/dev/null && return 0
	local text
	text="$(_mcp_quote "${1:-}")"
	printf '{"content":[{"type":"text","text":"Tool failed"}],"structuredContent":{"success":false,"error":{"type":"internal_error","message":"Tool failed","raw":%s}},"isError":true}\n' "${text}"
}

# mcp_error TYPE MESSAGE [--hint TEXT] [--data JSON]: the same, put together.
mcp_error() {
	local type="${1:-}" message="${2:-}" hint='' data='' out
	[ $# -lt 1 ] || shift
	[ $# -lt 1 ] || shift
	while [ $# -gt 0 ]; do
		case "$1" in
		--hint) hint="${2:-}" && [ $# -gt 1 ] && shift ;;
		--data) data="${2:-}" && [ $# -gt 1 ] && shift ;;
		esac
		shift
	done
	out="{\"type\":$(_mcp_quote "${type:-internal_error}"),\"message\":$(_mcp_quote "${message:-Unknown error}")"
	if [ -n "${hint}" ]; then
		out="${out},\"hint\":$(_mcp_quote "${hint}")"
		mcp_log_warn mcp_error "${type:-internal_error}: ${message} (${hint})"
	else
		mcp_log_debug mcp_error "${type:-internal_error}: ${message}"
	fi
	if [ -n "${data}" ]; then
		mcp_is_valid_json "${data}" || data="{\"_invalid_json\":$(_mcp_quote "${data}")}"
		out="${out},\"data\":${data}"
	fi
	mcp_result_error "${out}}"
}

# mcp_result_text_with_resource TEXT|JSON (--path FILE [--mime TYPE] [--uri URI])...: a result with files in it.
mcp_result_text_with_resource() {
	local text="${1:-}" entries='' path='' mime='' uri='' separator=''
	[ $# -lt 1 ] || shift
	while [ $# -gt 0 ] || [ -n "${path}" ]; do
		if [ -n "${path}" ] && { [ $# -eq 0 ] || [ "$1" = --path ]; }; then
			if [ ! -r "${path}" ]; then
				_mcp_warn "mcp_result_text_with_resource: ${path} can not be read; it is left out"
			else
				if [ -z "${mime}" ]; then
					mime="$(file --mime-type -b -- "${path}" 2>/dev/null)" || mime=application/octet-stream
				fi
				entries="${entries}${separator}{\"path\":$(_mcp_quote "${path}"),\"mimeType\":$(_mcp_quote "${mime}")"
				[ -z "${uri}" ] || entries="${entries},\"uri\":$(_mcp_quote "${uri}")"
				entries="${entries}}"
				separator=','
			fi
			path='' mime='' uri=''
			continue
		fi
		case "$1" in
		--path) path="${2:-}" ;;
		--mime) mime="${2:-}" ;;
		--uri) uri="${2:-}" ;;
		*)
			_mcp_warn "mcp_result_text_with_resource: what is $1?"
			shift
			continue
			;;
		esac
		shift
		[ $# -lt 1 ] || shift
	done
	if [ -n "${MCP_TOOL_RESOURCES_FILE:-}" ]; then
		printf '[%s]\n' "${entries}" >"${MCP_TOOL_RESOURCES_FILE}" || true
	elif [ -n "${entries}" ]; then
		_mcp_warn "mcp_result_text_with_resource: not in a tool call; files are left out"
	fi
	if [ -n "${text}" ] && ! mcp_is_valid_json "${text}"; then
		text="$(_mcp_quote "${text}")"
	fi
	mcp_result_success "${text}"
}

# mcp_json_truncate JSON [MAX_BYTES] [--array-path .a.b]: as many items of an array as fit. Never fails.
mcp_json_truncate() {
	local json="${1:-}" max=102400 path=''
	[ $# -lt 1 ] || shift
	while [ $# -gt 0 ]; do
		case "$1" in
		--array-path)
			path="${2:-}"
			[ $# -lt 2 ] || shift
			;;
		'' | *[!0-9]*) ;;
		*) max="$1" ;;
		esac
		shift
	done
	if [ -n "${path}" ] && ! printf '%s\n' "${path}" | grep -Eqx '(\.[A-Za-z_][A-Za-z0-9_]*)+'; then
		printf '{"result":null,"truncated":false,"error":{"type":"invalid_path_syntax","message":%s}}\n' \
			"$(_mcp_quote "${path}: only names with dots between them, like .data.items")"
		return 0
	fi
	if ! mcp_is_valid_json "${json}"; then
		printf '{"result":null,"truncated":false,"error":{"type":"invalid_json","message":"the value is not valid JSON","raw":%s}}\n' \
			"$(_mcp_quote "${json}")"
		return 0
	fi
	# shellcheck disable=SC2016
	printf '%s' "${json}" | _mcp_json -c --argjson max "${max}" --arg path "${path}" '
		def size: tojson | utf8bytelength;
		def failed($type; $message): {result: null, truncated: false, error: {type: $type, message: $message}};
		. as $data
		| (if $path != "" then $path[1:] / "."
			elif type == "array" then []
			elif type == "object" and (.results | type) == "array" then ["results"]
			else null end) as $at
		| if $at == null then
			if size <= $max then {result: ., truncated: false, kept: 0, total: 0}
			else failed("output_too_large"; "\(size) bytes, more than \($max), and no array to shorten") end
		else
			(reduce $at[] as $name ({value: $data, found: true};
				if .found and (.value | type) == "object" and (.value | has($name)) then {value: .value[$name], found: true}
				else {value: null, found: false} end)) as $place
			| if ($place.found | not) then failed("path_not_found"; "\($path): no such member")
			elif ($place.value | type) != "array" then failed("invalid_array_path"; "\($path): not an array")
			else
				$place.value as $items
				| (if $at == [] then 2 else ($data | setpath($at; []) | size) end) as $empty
				| (reduce $items[] as $item ({used: $empty, kept: 0, full: false};
					if .full then . else
						(.used + ($item | size) + (if .kept > 0 then 1 else 0 end)) as $used
						| if $used <= $max then {used: $used, kept: (.kept + 1), full: false} else .full = true end
					end)) as $fit
				| if $empty > $max and $at != [] then failed("output_too_large"; "more than \($max) bytes even with an empty \($at | join("."))")
				else
					{
						result: (if $at == [] then $items[:$fit.kept] else ($data | setpath($at; $items[:$fit.kept])) end),
						truncated: ($fit.kept < ($items | length)),
						kept: $fit.kept,
						total: ($items | length)
					}
				end
			end
		end'
}
