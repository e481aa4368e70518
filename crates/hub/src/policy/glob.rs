//! Patterns in which `*` stands for any characters, taken apart once.

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glob {
    /// The text before the first star, or all of it.
    head: Box<str>,
    /// What comes between stars.
    middle: Box<[Box<str>]>,
    /// The text after the last star; `None` where there is no star.
    tail: Option<Box<str>>,
}

impl Glob {
    pub(super) fn new(pattern: &str) -> Self {
        let mut pieces = pattern.split('*');
        let head = pieces.next().unwrap_or_default().into();
        let mut rest: Vec<Box<str>> = pieces.map(Box::from).collect();
        let tail = rest.pop();
        // Two stars in a row mean what one does.
        rest.retain(|piece| !piece.is_empty());
        Self { head, middle: rest.into(), tail }
    }

    /// Whether every text matches.
    pub(super) fn is_any(&self) -> bool {
        self.head.is_empty() && self.middle.is_empty() && self.tail.as_deref() == Some("")
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        let Some(tail) = &self.tail else { return *self.head == *text };
        let Some(rest) = text.strip_prefix(&*self.head) else { return false };
        let Some(mut rest) = rest.strip_suffix(&**tail) else { return false };
        // Each as far to the left as it can stand: what is left for the next one is then the most there can be.
        for piece in &self.middle {
            let Some(at) = rest.find(&**piece) else { return false };
            rest = &rest[at + piece.len()..];
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // identity 3
    #[test]
    fn stars_stand_for_any_characters() {
        let table = [
            ("read", "read", true),
            ("read", "reader", false),
            ("read_*", "read_file", true),
            ("read_*", "read", false),
            ("*_file", "read_file", true),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*b*c", "a__b_b__c", true),
            ("a*b*c", "a__c__b", false),
            ("a*a", "a", false),
            ("*ab", "aab", true),
            ("**x**", "x", true),
            ("db://*/rows", "db://a/b/rows", true),
        ];
        for (pattern, text, expected) in table {
            assert_eq!(Glob::new(pattern).matches(text), expected, "{pattern} {text}");
        }
        assert!(Glob::new("*").is_any() && Glob::new("**").is_any());
        assert!(!Glob::new("a*").is_any() && !Glob::new("").is_any());
    }
}
