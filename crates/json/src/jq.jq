# What scripts written for jq rely on and the built-in language does otherwise.
def tojson: jq_json;
def tostring: if isstring then . else jq_json end;
def @text: tostring;
def @json: jq_json;
def join($s): reduce .[] as $x (null; (if . == null then "" else . + $s end) + ($x | if . == null then "" else tostring end)) // "";
def from_entries: reduce (.[] | { ((if .key != null then .key else .k // .name // .Name // .Key // .K end) | tostring): (if has("value") then .value elif has("v") then .v else .Value end) }) as $x ({}; . + $x);
def with_entries(f): to_entries | map(f) | from_entries;
def env: $ENV;
def input_line_number: 0;
def ascii: [.] | implode;
def row(f): map(if isstring then f elif . == null then "" elif isnumber or isboolean then tostring else error("\(type) is no field of a row") end);
def @csv: row("\"" + gsub("\""; "\"\"") + "\"") | join(",");
def @tsv: row(gsub("\\\\"; "\\\\") | gsub("\t"; "\\t") | gsub("\n"; "\\n") | gsub("\r"; "\\r")) | join("\t");
