//! Word forms: Porter's stemmer for English (M. F. Porter, 1980), on lower-case ASCII.
//!
//! Words with other letters are returned as they are.

/// The stem of a lower-case word.
pub(crate) fn stem(word: &str) -> String {
    if word.len() <= 2 || !word.bytes().all(|b| b.is_ascii_lowercase()) {
        return word.to_owned();
    }
    let mut text = word.to_owned();
    plural(&mut text);
    past_and_progressive(&mut text);
    if let Some(head) = text.strip_suffix('y')
        && has_vowel(head)
    {
        text = format!("{head}i");
    }
    replace_first(&mut text, LONG_SUFFIXES);
    replace_first(&mut text, MIDDLE_SUFFIXES);
    drop_suffix(&mut text);
    final_e_and_double_l(&mut text);
    text
}

const LONG_SUFFIXES: &[(&str, &str)] = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("abli", "able"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
];

const MIDDLE_SUFFIXES: &[(&str, &str)] =
    &[("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", "")];

/// Dropped where what remains is long enough; a longer suffix stands before one it ends with.
const SHORT_SUFFIXES: &[&str] = &[
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize", "ion",
    "al", "er", "ic", "ou",
];

fn plural(text: &mut String) {
    if text.ends_with("sses") || text.ends_with("ies") {
        text.truncate(text.len() - 2);
    } else if text.ends_with('s') && !text.ends_with("ss") {
        text.truncate(text.len() - 1);
    }
}

fn past_and_progressive(text: &mut String) {
    if let Some(head) = text.strip_suffix("eed") {
        if measure(head) > 0 {
            text.truncate(text.len() - 1);
        }
        return;
    }
    let Some(head) = text.strip_suffix("ed").or_else(|| text.strip_suffix("ing")).filter(|head| has_vowel(head)) else {
        return;
    };
    let mut head = head.to_owned();
    if head.ends_with("at") || head.ends_with("bl") || head.ends_with("iz") || (measure(&head) == 1 && ends_cvc(&head))
    {
        head.push('e');
    } else if ends_in_double(&head) && !head.ends_with(['l', 's', 'z']) {
        head.pop();
    }
    *text = head;
}

fn replace_first(text: &mut String, table: &[(&str, &str)]) {
    let Some((suffix, new)) = table.iter().filter(|(s, _)| text.ends_with(s)).max_by_key(|(s, _)| s.len()) else {
        return;
    };
    let head = text.len() - suffix.len();
    if measure(&text[..head]) > 0 {
        text.truncate(head);
        text.push_str(new);
    }
}

fn drop_suffix(text: &mut String) {
    let Some(suffix) = SHORT_SUFFIXES.iter().find(|s| text.ends_with(**s)) else { return };
    let head = &text[..text.len() - suffix.len()];
    // Porter asks for more than one before "ion"; with one, "creation" is a form of "create".
    let fits = if *suffix == "ion" { head.ends_with(['s', 't']) && measure(head) > 0 } else { measure(head) > 1 };
    if fits {
        text.truncate(head.len());
    }
}

fn final_e_and_double_l(text: &mut String) {
    if let Some(head) = text.strip_suffix('e') {
        let m = measure(head);
        if m > 1 || (m == 1 && !ends_cvc(head)) {
            text.pop();
        }
    }
    if text.ends_with("ll") && measure(text) > 1 {
        text.pop();
    }
}

fn is_vowel(bytes: &[u8], at: usize) -> bool {
    match bytes[at] {
        b'a' | b'e' | b'i' | b'o' | b'u' => true,
        b'y' => at > 0 && !is_vowel(bytes, at - 1),
        _ => false,
    }
}

fn has_vowel(text: &str) -> bool {
    (0..text.len()).any(|at| is_vowel(text.as_bytes(), at))
}

/// How often a vowel is followed by a consonant: Porter's measure of length.
fn measure(text: &str) -> usize {
    let bytes = text.as_bytes();
    (1..bytes.len()).filter(|&at| !is_vowel(bytes, at) && is_vowel(bytes, at - 1)).count()
}

fn ends_in_double(text: &str) -> bool {
    let bytes = text.as_bytes();
    let n = bytes.len();
    n >= 2 && bytes[n - 1] == bytes[n - 2] && !is_vowel(bytes, n - 1)
}

fn ends_cvc(text: &str) -> bool {
    let bytes = text.as_bytes();
    let n = bytes.len();
    n >= 3
        && !is_vowel(bytes, n - 3)
        && is_vowel(bytes, n - 2)
        && !is_vowel(bytes, n - 1)
        && !matches!(bytes[n - 1], b'w' | b'x' | b'y')
}

#[cfg(test)]
mod tests {
    use super::stem;

    #[test]
    fn forms_of_a_word_share_a_stem() {
        for group in [
            &["create", "creates", "creating", "created", "creation"][..],
            &["delete", "deletes", "deletion", "deleting"],
            &["query", "queries"],
            &["repository", "repositories"],
            &["message", "messages", "messaging"],
            &["list", "lists", "listing", "listed"],
            &["commit", "commits", "committed", "committing"],
            &["branch", "branches"],
            &["schedule", "scheduled", "scheduling"],
        ] {
            for word in group {
                assert_eq!(stem(word), stem(group[0]), "{word}");
            }
        }
    }

    #[test]
    fn porters_examples() {
        for (word, expected) in [
            ("caresses", "caress"),
            ("ponies", "poni"),
            ("agreed", "agre"),
            ("hopping", "hop"),
            ("falling", "fall"),
            ("filing", "file"),
            ("happy", "happi"),
            ("sky", "sky"),
            ("relational", "relat"),
            ("vietnamization", "vietnam"),
            ("electrical", "electr"),
            ("replacement", "replac"),
            ("adoption", "adopt"),
            ("controll", "control"),
            ("rate", "rate"),
        ] {
            assert_eq!(stem(word), expected, "{word}");
        }
    }

    #[test]
    fn other_alphabets_and_short_words_stay() {
        for word in ["s3", "os", "übung", "検索"] {
            assert_eq!(stem(word), word);
        }
    }
}
