//! The spellings that clients have for a variable, as Tidings reads it: `${env:NAME}`.

/// Why a variable stands in a text that was not one of the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AskedFor {
    /// What the client called it.
    pub(crate) input: String,
    /// The variable that must now hold it.
    pub(crate) variable: String,
}

/// The text with every reference in Tidings' words.
pub(crate) fn respelled(text: &str, asked: &mut Vec<AskedFor>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['$', '{']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (spelled, length) = reference(rest, asked).unwrap_or_else(|| {
            let one = rest.chars().next().map_or(0, char::len_utf8);
            // `${…}` of an unknown kind is not read again from its brace.
            let length = if rest.starts_with("${") { 2 } else { one };
            (rest[..length].to_owned(), length)
        });
        out.push_str(&spelled);
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

/// The reference that `text` begins with, and how long it is there.
fn reference(text: &str, asked: &mut Vec<AskedFor>) -> Option<(String, usize)> {
    if let Some(inside) = text.strip_prefix("${") {
        let end = inside.find('}')?;
        let (inside, length) = (&inside[..end], end + 3);
        if let Some(input) = inside.strip_prefix("input:") {
            let variable = variable_of(input);
            let one = AskedFor { input: input.to_owned(), variable: variable.clone() };
            if !asked.contains(&one) {
                asked.push(one);
            }
            return Some((format!("${{env:{variable}}}"), length));
        }
        if ["env:", "file:", "keyring:"].iter().any(|kind| inside.starts_with(kind)) {
            // Spelled as Tidings reads it already.
            return Some((text[..length].to_owned(), length));
        }
        let name = inside.split(":-").next().unwrap_or_default();
        return is_name(name).then(|| (format!("${{env:{inside}}}"), length));
    }
    if let Some(inside) = text.strip_prefix("{env:") {
        let end = inside.find('}')?;
        return is_name(&inside[..end]).then(|| (format!("${{env:{}}}", &inside[..end]), end + "{env:}".len()));
    }
    let inside = text.strip_prefix('$')?;
    let end = inside.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(inside.len());
    is_name(&inside[..end]).then(|| (format!("${{env:{}}}", &inside[..end]), end + 1))
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A name that a shell can set.
fn variable_of(input: &str) -> String {
    let plain: String = input.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if plain.starts_with(|c: char| c.is_ascii_digit()) { format!("_{plain}") } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    // reach 1
    #[test]
    fn every_spelling_of_a_variable_becomes_the_one_of_tidings() {
        let mut asked = Vec::new();
        for (theirs, ours) in [
            ("${A}-${B:-x}", "${env:A}-${env:B:-x}"),
            ("${env:A} ${file:/x} ${keyring:k} ${", "${env:A} ${file:/x} ${keyring:k} ${"),
            ("Bearer {env:TOKEN}", "Bearer ${env:TOKEN}"),
            ("$TOKEN/x$1 5$", "${env:TOKEN}/x$1 5$"),
            ("{not} {env:} ${a b}", "{not} {env:} ${a b}"),
            ("ä$Bö", "ä${env:B}ö"),
        ] {
            assert_eq!(respelled(theirs, &mut asked), ours);
        }
        assert!(asked.is_empty());
        assert_eq!(respelled("Bearer ${input:api-key}", &mut asked), "Bearer ${env:api_key}");
        assert_eq!(asked, [AskedFor { input: "api-key".into(), variable: "api_key".into() }]);
    }
}
