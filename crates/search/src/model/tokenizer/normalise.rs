//! The `normalizer` of a tokenizer: what is done to the whole text first.

use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

#[derive(Debug)]
pub(super) enum NormalStep {
    Lowercase,
    StripAccents,
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
    Prepend(String),
    Replace(String, String),
    /// Runs of white space become one space.
    OneSpace,
    Strip(bool, bool),
    /// Control characters go, white space becomes spaces.
    CleanText,
    /// Chinese characters stand alone.
    SpaceChinese,
}

/// The steps that a file asks for.
pub(super) fn steps(normalizer: &Value, approximations: &mut Vec<String>) -> Result<Vec<NormalStep>, String> {
    let mut steps = Vec::new();
    collect(normalizer, &mut steps, approximations)?;
    Ok(steps)
}

fn collect(normalizer: &Value, steps: &mut Vec<NormalStep>, approximations: &mut Vec<String>) -> Result<(), String> {
    let flag = |name: &str| normalizer[name].as_bool();
    let text = |name: &str| normalizer[name].as_str().unwrap_or_default().to_owned();
    match normalizer["type"].as_str() {
        None => {}
        Some("Sequence") => {
            for part in normalizer["normalizers"].as_array().into_iter().flatten() {
                collect(part, steps, approximations)?;
            }
        }
        Some("Lowercase") => steps.push(NormalStep::Lowercase),
        Some("StripAccents") => steps.push(NormalStep::StripAccents),
        Some("NFC") => steps.push(NormalStep::Nfc),
        Some("NFD") => steps.push(NormalStep::Nfd),
        Some("NFKC") => steps.push(NormalStep::Nfkc),
        Some("NFKD") => steps.push(NormalStep::Nfkd),
        Some("Prepend") => steps.push(NormalStep::Prepend(text("prepend"))),
        Some("Strip") => {
            steps.push(NormalStep::Strip(flag("strip_left").unwrap_or(true), flag("strip_right").unwrap_or(true)));
        }
        Some("Replace") => {
            let pattern = &normalizer["pattern"];
            match (pattern["String"].as_str(), pattern["Regex"].as_str()) {
                (Some(from), _) if !from.is_empty() => {
                    steps.push(NormalStep::Replace(from.to_owned(), text("content")))
                }
                // Runs of white space are the one pattern that is understood; another one is refused rather than
                // guessed.
                (_, Some(" {2,}" | r"\s+" | " +")) if text("content") == " " => steps.push(NormalStep::OneSpace),
                _ => return Err(format!("its normalizer replaces {pattern}, which is not known")),
            }
        }
        Some("BertNormalizer") => {
            let lowercase = flag("lowercase").unwrap_or(true);
            let bert = [
                (flag("clean_text").unwrap_or(true), NormalStep::CleanText),
                (flag("handle_chinese_chars").unwrap_or(true), NormalStep::SpaceChinese),
                // BERT strips accents where it makes letters small, unless the file says otherwise.
                (flag("strip_accents").unwrap_or(lowercase), NormalStep::StripAccents),
                (lowercase, NormalStep::Lowercase),
            ];
            steps.extend(bert.into_iter().filter(|(on, _)| *on).map(|(_, step)| step));
        }
        Some("Precompiled") => {
            // SentencePiece's own table is NFKC with a few characters more, and one space for many.
            approximations.push("its table of characters (Precompiled) is taken for NFKC".into());
            steps.extend([NormalStep::Nfkc, NormalStep::CleanText]);
        }
        Some(other) => return Err(format!("its normalizer {other} is not known")),
    }
    Ok(())
}

impl NormalStep {
    pub(super) fn apply(&self, text: &str) -> String {
        match self {
            Self::Lowercase => text.to_lowercase(),
            Self::StripAccents => text.nfd().filter(|letter| !is_combining_mark(*letter)).collect(),
            Self::Nfc => text.nfc().collect(),
            Self::Nfd => text.nfd().collect(),
            Self::Nfkc => text.nfkc().collect(),
            Self::Nfkd => text.nfkd().collect(),
            Self::Prepend(prefix) => format!("{prefix}{text}"),
            Self::Replace(from, to) => text.replace(from, to),
            Self::OneSpace => one_space(text),
            Self::Strip(left, right) => {
                let text = if *left { text.trim_start() } else { text };
                (if *right { text.trim_end() } else { text }).to_owned()
            }
            Self::CleanText => text
                .chars()
                .filter(|letter| letter.is_whitespace() || !(letter.is_control() || *letter == '\u{fffd}'))
                .map(|letter| if letter.is_whitespace() { ' ' } else { letter })
                .collect(),
            Self::SpaceChinese => space_chinese(text),
        }
    }
}

fn one_space(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if !(letter.is_whitespace() && out.ends_with(' ')) {
            out.push(if letter.is_whitespace() { ' ' } else { letter });
        }
    }
    out
}

fn space_chinese(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2fa1f}')
        {
            out.extend([' ', letter, ' ']);
        } else {
            out.push(letter);
        }
    }
    out
}
