//! Which tools of a server are let through.

/// `tools = { allow = […], deny = […] }`: patterns in which `*` stands for any characters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolFilter {
    /// When not empty, only matching tools are let through.
    pub allow: Vec<String>,
    /// Matching tools are held back, whatever `allow` says.
    pub deny: Vec<String>,
}

impl ToolFilter {
    /// Whether the tool that the server calls `name` is let through.
    pub fn permits(&self, name: &str) -> bool {
        let matches = |pattern: &String| glob_matches(pattern, name);
        (self.allow.is_empty() || self.allow.iter().any(matches)) && !self.deny.iter().any(matches)
    }

    /// Whether every tool is let through.
    pub fn is_open(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }
}

/// Whether `text` matches `pattern`, in which `*` stands for any characters.
pub fn glob_matches(pattern: &str, text: &str) -> bool {
    // Bytes suffice: in UTF-8 the bytes of one character never occur inside another.
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to go on when the characters after the last star do not fit: that star takes one more.
    let mut retry = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
        } else if pattern.get(p) == Some(&text[t]) {
            p += 1;
            t += 1;
        } else if let Some((after_star, taken)) = retry {
            p = after_star;
            t = taken + 1;
            retry = Some((p, t));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_characters() {
        let table = [
            ("read", "read", true),
            ("read", "reader", false),
            ("read_*", "read_file", true),
            ("*_file", "read_file", true),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*b*c", "a__b_b__c", true),
            ("a*b*c", "a__c__b", false),
            ("*ab", "aab", true),
            ("**x**", "x", true),
        ];
        for (pattern, text, expected) in table {
            assert_eq!(glob_matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn deny_wins_over_allow_and_no_filter_permits_all() {
        let filter = ToolFilter { allow: vec!["read_*".into()], deny: vec!["*_secret".into()] };
        assert!(filter.permits("read_file"));
        assert!(!filter.permits("read_secret"));
        assert!(!filter.permits("write_file"));
        assert!(ToolFilter::default().permits("anything"));
    }
}
