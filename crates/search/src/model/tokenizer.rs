//! From text to tokens, as the `tokenizer.json` of a model says.
//!
//! Text passes the steps of `normalise`, then those of `cut`, and each piece is cut into tokens by one of three
//! algorithms. What a file asks for and is not known here is refused, or followed nearly and said so; never left out in silence.

mod bpe;
mod cut;
mod file;
mod normalise;
mod unigram;
mod wordpiece;

use bpe::Bpe;
use cut::CutStep;
use file::TokenizerFile;
use normalise::NormalStep;
use unigram::Unigram;
use wordpiece::WordPiece;

/// Cuts text into tokens.
#[derive(Debug)]
pub(super) struct Tokenizer {
    normal: Vec<NormalStep>,
    cuts: Vec<CutStep>,
    pieces: Algorithm,
    approximations: Vec<String>,
}

#[derive(Debug)]
enum Algorithm {
    Bpe(Bpe),
    WordPiece(WordPiece),
    Unigram(Unigram),
}

impl Tokenizer {
    /// Reads a `tokenizer.json`.
    pub(super) fn read(text: &[u8]) -> Result<Self, String> {
        let file: TokenizerFile = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let mut approximations = Vec::new();
        let normal = normalise::steps(&file.normalizer, &mut approximations)?;
        let cuts = cut::steps(&file.pre_tokenizer)?;
        let pieces = match (file.model.kind.as_deref(), &file.model.merges) {
            // Older files do not name the kind; only BPE has merges.
            (Some("BPE"), _) | (None, Some(_)) => Algorithm::Bpe(Bpe::new(file.model)?),
            (Some("WordPiece"), _) => Algorithm::WordPiece(WordPiece::new(file.model)?),
            (Some("Unigram"), _) => Algorithm::Unigram(Unigram::new(file.model)?),
            (Some(other), _) => {
                return Err(format!("its tokenizer is of the kind {other}; BPE, WordPiece and Unigram are known"));
            }
            (None, None) => return Err("it does not say of which kind its tokenizer is".into()),
        };
        Ok(Self { normal, cuts, pieces, approximations })
    }

    pub(super) fn kind(&self) -> &'static str {
        match &self.pieces {
            Algorithm::Bpe(_) => "BPE",
            Algorithm::WordPiece(_) => "WordPiece",
            Algorithm::Unigram(_) => "Unigram",
        }
    }

    /// The token of a whole piece, where words are cut into pieces.
    pub(super) fn piece(&self, text: &str) -> Option<u32> {
        match &self.pieces {
            Algorithm::WordPiece(pieces) => pieces.token(text),
            Algorithm::Bpe(_) | Algorithm::Unigram(_) => None,
        }
    }

    pub(super) fn approximations(&self) -> &[String] {
        &self.approximations
    }

    /// About how much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        match &self.pieces {
            Algorithm::Bpe(bpe) => bpe.bytes(),
            Algorithm::WordPiece(pieces) => pieces.bytes(),
            Algorithm::Unigram(pieces) => pieces.bytes(),
        }
    }

    /// The tokens of a text. What the vocabulary has no word for gives none.
    pub(super) fn encode(&self, text: &str) -> Vec<u32> {
        if text.is_empty() {
            return Vec::new();
        }
        let text = self.normal.iter().fold(text.to_owned(), |text, step| step.apply(&text));
        let pieces = self.cuts.iter().fold(vec![text], |pieces, step| {
            let mut cut = Vec::new();
            for (at, piece) in pieces.into_iter().enumerate() {
                // The first piece is the beginning of the text, which some models mark with a space.
                step.apply(&piece, at == 0, &mut cut);
            }
            cut
        });
        let mut tokens = Vec::new();
        for piece in &pieces {
            match &self.pieces {
                Algorithm::Bpe(bpe) => bpe.encode(piece, &mut tokens),
                Algorithm::WordPiece(words) => words.encode(piece, &mut tokens),
                Algorithm::Unigram(unigram) => unigram.encode(piece, &mut tokens),
            }
        }
        tokens
    }
}
