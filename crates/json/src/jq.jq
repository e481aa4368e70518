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
def IN(s): any(s == .; .);
def IN(src; s): any(src == s; .);
def INDEX(stream; f): reduce stream as $row ({}; .[$row | f | tostring] |= $row);
def INDEX(f): INDEX(.[]; f);
def ltrimstr($x): if isstring and ($x | isstring) and startswith($x) then .[($x | length):] else . end;
def rtrimstr($x): if isstring and ($x | isstring) and endswith($x) and $x != "" then .[:length - ($x | length)] else . end;
def input: [limit(1; inputs)] | if length == 0 then error("No more inputs") else .[0] end;
def delpaths($paths): reduce ($paths | sort | reverse[]) as $path (.; . as $whole | try (getpath($path) |= empty) catch $whole);
def del(f): delpaths([path(f)]);
def leaf_paths: paths(scalars);
def jq_grow($name): if . == null then (if $name | isnumber then [] else {} end) else . end
  | if isarray and ($name | isnumber) then until(length > $name; . + [null]) else . end;
def setpath($path; $x): if $path == [] then $x else $path[0] as $name | jq_grow($name) | .[$name] |= setpath($path[1:]; $x) end;
