//! From text to words: splitting at separators and at changes of case, stop words, stems.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::stem::stem;

/// Words longer than this are data (keys, hashes), not language.
const MAX_WORD_BYTES: usize = 48;

/// Written with capitals inside, but one word.
const UNSPLIT: &str = "
    bigquery bitbucket clickhouse cloudflare cloudwatch cosmosdb dockerhub dynamodb facebook github gitlab
    graphql hubspot iphone javascript jsonl latex linkedin macos mongodb mysql nosql oauth openai openapi
    paypal postgresql powerpoint quickbooks sharepoint sqlite tiktok typescript whatsapp wordpress youtube
";

const STOP_WORDS: &str = "
    a about after all also am an and any are as at be been before being but by can could did do does doing
    done each else every everybody everyone everything for from going had has have he her here hers him his
    how i if in into is it its just let ll may me might mine must my need of on onto or our ours please s
    shall she should so some somebody someone something such t than that the their them then there these they
    this those three to too tool tools two us using very via want was we were what when where whether which
    while who whom whose why will with would yet you your
";

fn table(words: &'static str) -> HashSet<&'static str> {
    words.split_whitespace().collect()
}

/// Whether a lower-case word carries no meaning of its own.
pub(crate) fn is_stop_word(word: &str) -> bool {
    static TABLE: LazyLock<HashSet<&str>> = LazyLock::new(|| table(STOP_WORDS));
    TABLE.contains(word)
}

fn is_unsplit(word: &str) -> bool {
    static TABLE: LazyLock<HashSet<&str>> = LazyLock::new(|| table(UNSPLIT));
    TABLE.contains(word)
}

/// The lower-case words of a text in order, stop words included.
pub(crate) fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for run in text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty()) {
        if run.chars().any(is_unspaced) {
            split_unspaced(run, &mut words);
        } else if is_unsplit(&run.to_lowercase()) {
            words.push(run.to_lowercase());
        } else {
            split_at_case(run, &mut words);
        }
    }
    // After splitting, because a long run in camel case has words of the usual length.
    words.retain(|word| word.len() <= MAX_WORD_BYTES);
    words
}

/// The terms under which a text is filed: the stems of its words.
///
/// `keep_stop_words` is for names, where each word was chosen.
pub(crate) fn terms(text: &str, keep_stop_words: bool) -> Vec<String> {
    split(text).iter().filter(|word| keep_stop_words || !is_stop_word(word)).map(|word| stem(word)).collect()
}

/// `readFile`, `HTTPServer`, `ListObjectsV2`: a capital after a small letter or digit, or the last of several capitals.
fn split_at_case(run: &str, words: &mut Vec<String>) {
    let letters: Vec<char> = run.chars().collect();
    let mut word = String::new();
    for (at, &letter) in letters.iter().enumerate() {
        let after_small = at > 0 && letter.is_uppercase() && !letters[at - 1].is_uppercase();
        let before_small =
            at > 0 && letter.is_uppercase() && letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        // The plural of an abbreviation: `URLs`, `PRs`.
        let plural = before_small && at + 2 == letters.len() && letters[at + 1] == 's';
        if (after_small || (before_small && !plural)) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        word.extend(letter.to_lowercase());
    }
    words.push(word);
}

/// Scripts that put no space between words.
fn is_unspaced(letter: char) -> bool {
    // Thai and Lao, Tibetan, Myanmar, Khmer, kana, Han.
    matches!(letter, '\u{0e00}'..='\u{0eff}' | '\u{0f00}'..='\u{0fff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3134f}')
}

/// Pairs of letters stand in for words there. What is written in another script in between is a word of its own.
fn split_unspaced(run: &str, words: &mut Vec<String>) {
    let letters: Vec<char> = run.chars().collect();
    for part in letters.chunk_by(|a, b| is_unspaced(*a) == is_unspaced(*b)) {
        let text: String = part.iter().collect();
        if !is_unspaced(part[0]) {
            if is_unsplit(&text.to_lowercase()) { words.push(text.to_lowercase()) } else { split_at_case(&text, words) }
        } else if part.len() == 1 {
            words.push(text);
        } else {
            words.extend(part.windows(2).map(|pair| pair.iter().collect::<String>()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // S3.8
    #[test]
    fn spelling_of_compounds_does_not_matter() {
        for text in
            ["read_text_file", "readTextFile", "ReadTextFile", "read-text-file", "read.text.file", "read/text file"]
        {
            assert_eq!(split(text), ["read", "text", "file"], "{text}");
        }
        assert_eq!(split("HTTPServer getURL ListObjectsV2"), ["http", "server", "get", "url", "list", "objects", "v2"]);
        assert_eq!(split("PRs of GitHub"), ["prs", "of", "github"]);
    }

    #[test]
    fn text_without_spaces_is_found_by_pairs() {
        assert_eq!(split("検索する"), ["検索", "索す", "する"]);
        assert_eq!(split("ခွေး"), ["ခွ", "ွေ", "ေး"]);
    }

    #[test]
    fn names_of_another_script_stay_whole_between_letters_without_spaces() {
        assert_eq!(split("GitHubの課題"), ["github", "の課", "課題"]);
        assert_eq!(split("文件readFile"), ["文件", "read", "file"]);
    }
}
