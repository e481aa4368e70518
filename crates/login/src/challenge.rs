//! What a server says when it refuses a request: the `WWW-Authenticate` header (RFC 9110, RFC 6750, RFC 9728).

/// The parameters of a `Bearer` challenge that count here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BearerChallenge {
    /// Where the resource describes itself.
    pub(crate) resource_metadata: Option<String>,
    /// What is to be asked for.
    pub(crate) scopes: Option<Vec<String>>,
    /// `invalid_token`, `insufficient_scope` and others.
    pub(crate) error: Option<String>,
}

impl BearerChallenge {
    /// The first `Bearer` challenge of a header; `None` if there is none.
    pub(crate) fn parse(header: &str) -> Option<Self> {
        let mut rest = header.trim();
        let mut found: Option<Self> = None;
        while !rest.is_empty() {
            let (word, after) = token(rest);
            if word.is_empty() {
                // A stray sign: what follows it may still be a challenge.
                rest = rest.get(1..).unwrap_or_default().trim_start();
                continue;
            }
            let after = after.trim_start();
            // A name with a value belongs to the challenge before it; a word without one begins the next.
            // `==` is padding of a token68 (RFC 9110, 11.2), and no value.
            match after.strip_prefix('=').filter(|after| !after.starts_with('=')) {
                Some(value) => {
                    let (value, after) = value_of(value.trim_start());
                    if let Some(challenge) = &mut found {
                        challenge.set(word, value);
                    }
                    rest = after.trim_start_matches([',', ' ', '\t']);
                }
                // The next challenge begins: a second `Bearer` after it is not looked at.
                None if found.is_some() => break,
                None => {
                    if word.eq_ignore_ascii_case("bearer") {
                        found = Some(Self::default());
                        rest = after;
                    } else {
                        rest = skip_challenge(after);
                    }
                }
            }
        }
        found
    }

    fn set(&mut self, name: &str, value: String) {
        match name.to_ascii_lowercase().as_str() {
            "resource_metadata" => self.resource_metadata = Some(value),
            "scope" => {
                let scopes: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
                // An empty list is as good as none: else it would hide what the resource says that it has.
                self.scopes = (!scopes.is_empty()).then_some(scopes);
            }
            "error" => self.error = Some(value),
            _ => {}
        }
    }
}

fn token(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)));
    text.split_at(end.unwrap_or(text.len()))
}

/// A value in quotes or without, and what follows it.
fn value_of(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &quoted[at + 1..]),
            // A quoted pair (RFC 9110, 5.6.4). At the end of the header nothing follows the sign, and nothing is added.
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            c => value.push(c),
        }
    }
    (value, "")
}

/// Past the parameters of a challenge that is not ours.
fn skip_challenge(mut rest: &str) -> &str {
    loop {
        rest = rest.trim_start_matches([',', ' ', '\t']);
        let (word, after) = token(rest);
        let value = after.trim_start().strip_prefix('=');
        match value {
            // Also past a token68, whose padding looks like a value that is empty or begins with `=`.
            Some(value) if !word.is_empty() => rest = value_of(value.trim_start_matches('=').trim_start()).1,
            _ => return rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_challenge_is_found_among_others() {
        let said = BearerChallenge::parse(
            r#"Basic realm="a, b", Bearer error="invalid_token", resource_metadata="https://h/.well-known/x", scope="a b""#,
        );
        let said = said.expect("a challenge");
        assert_eq!(said.resource_metadata.as_deref(), Some("https://h/.well-known/x"));
        assert_eq!(said.scopes.as_deref(), Some(&["a".to_owned(), "b".to_owned()][..]));
        assert_eq!(said.error.as_deref(), Some("invalid_token"));
    }

    #[test]
    fn odd_headers_are_read_without_harm() {
        assert_eq!(BearerChallenge::parse("Bearer"), Some(BearerChallenge::default()));
        assert_eq!(BearerChallenge::parse("bearer realm=x"), Some(BearerChallenge::default()));
        assert_eq!(BearerChallenge::parse("Basic realm=\"x\""), None);
        assert_eq!(BearerChallenge::parse("Negotiate abc=="), None);
        assert_eq!(BearerChallenge::parse(""), None);
        let quoted = BearerChallenge::parse(r#"Bearer scope="a\"b", DPoP algs="x""#).expect("a challenge");
        assert_eq!(quoted.scopes, Some(vec!["a\"b".to_owned()]));
        for broken in ["Bearer scope=\"", "Bearer =", ",,,Bearer ,", "Bearer é=1", "Bearer scope"] {
            let _ = BearerChallenge::parse(broken);
        }
    }
}
