//! The parts of a `tokenizer.json` that are used, read without building the whole file in memory first.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

#[derive(serde::Deserialize)]
pub(super) struct TokenizerFile {
    #[serde(default)]
    pub(super) normalizer: Value,
    #[serde(default)]
    pub(super) pre_tokenizer: Value,
    pub(super) model: ModelPart,
}

#[derive(serde::Deserialize)]
pub(super) struct ModelPart {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) vocab: Vocabulary,
    pub(super) merges: Option<Vec<MergePair>>,
    #[serde(default)]
    pub(super) byte_fallback: bool,
    #[serde(default)]
    pub(super) ignore_merges: bool,
    pub(super) dropout: Option<f32>,
    pub(super) unk_token: Option<String>,
    pub(super) unk_id: Option<u32>,
    pub(super) continuing_subword_prefix: Option<String>,
    pub(super) end_of_word_suffix: Option<String>,
    pub(super) max_input_chars_per_word: Option<usize>,
}

/// The tokens by their text, and how likely each is where the file says so.
#[derive(Default)]
pub(super) struct Vocabulary {
    pub(super) tokens: HashMap<Box<str>, u32>,
    pub(super) scores: Vec<f32>,
}

/// What two tokens become one.
pub(super) struct MergePair(pub(super) String, pub(super) String);

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Vocabulary;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a vocabulary")
            }
            // BPE and WordPiece map tokens to numbers.
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocabulary, A::Error> {
                let mut vocabulary = Vocabulary::default();
                while let Some((token, id)) = map.next_entry::<Box<str>, u32>()? {
                    vocabulary.tokens.insert(token, id);
                }
                vocabulary.tokens.shrink_to_fit();
                Ok(vocabulary)
            }
            // Unigram lists tokens with their scores; the place in the list is the number.
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vocabulary, A::Error> {
                let mut vocabulary = Vocabulary::default();
                while let Some((token, score)) = list.next_element::<(Box<str>, f32)>()? {
                    vocabulary.tokens.insert(token, vocabulary.scores.len() as u32);
                    vocabulary.scores.push(score);
                }
                vocabulary.tokens.shrink_to_fit();
                vocabulary.scores.shrink_to_fit();
                Ok(vocabulary)
            }
        }
        reader.deserialize_any(Reader)
    }
}

impl<'de> Deserialize<'de> for MergePair {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = MergePair;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("two tokens")
            }
            // Older files write a merge as "left right", newer ones as a list of two.
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<MergePair, E> {
                let (left, right) = text.split_once(' ').ok_or_else(|| E::custom("a merge of one token"))?;
                Ok(MergePair(left.to_owned(), right.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<MergePair, A::Error> {
                let mut next = || list.next_element::<String>();
                match (next()?, next()?) {
                    (Some(left), Some(right)) => Ok(MergePair(left, right)),
                    _ => Err(serde::de::Error::custom("a merge of one token")),
                }
            }
        }
        reader.deserialize_any(Reader)
    }
}

impl Vocabulary {
    /// About how much memory it takes: an entry of the table, and the text on the heap.
    pub(super) fn bytes(&self) -> usize {
        // 24 bytes of key and value, and one control byte of the hash table; an allocator gives no less than 16 for a
        // text.
        self.tokens.capacity() * 25
            + self.tokens.keys().map(|token| token.len().max(16)).sum::<usize>()
            + self.scores.len() * 4
    }

    /// The tokens that stand for single bytes, where there is one for each.
    pub(super) fn byte_tokens(&self) -> Option<Vec<u32>> {
        (0..=255_u8).map(|byte| self.tokens.get(format!("<0x{byte:02X}>").as_str()).copied()).collect()
    }
}
