//! Taking an object's text apart, without the code that the gateway uses for it.

/// The members of an object as raw texts of key and value, white space around them taken off.
pub(crate) fn members(object: &str) -> Vec<(String, String)> {
    let inner = object.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let inner = inner.unwrap_or_else(|| panic!("not an object: {object}"));
    let mut out = Vec::new();
    for member in split(inner, b',') {
        let parts = split(member, b':');
        if let [key, value] = parts[..] {
            out.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    out
}

/// Cuts at a separator that stands outside of strings and brackets.
fn split(text: &str, separator: u8) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quoted, mut escaped) = (Vec::new(), 0, 0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            byte if byte == separator && depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[test]
fn an_object_comes_apart_at_its_own_commas() {
    let text = r#"{ "a,b" : [1,{"c":2}] ,"\"":"}," }"#;
    let expected = [(r#""a,b""#, r#"[1,{"c":2}]"#), (r#""\"""#, r#""},""#)];
    let found = members(text);
    assert_eq!(found.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect::<Vec<_>>(), expected);
    assert!(members("{ }").is_empty());
}
