//! Models of meaning: texts that mean the same are near each other, also where they share no letter. A static one has one
//! vector per token, averaged over a text; a small transformer reads the words of a text together.
//!
//! Here: the files of a model, from text to tokens, from tokens to a vector. Not here: what is embedded and how it is ranked.
//! Static models are used as Model2Vec and WordLlama publish them; `docs/adr/0029-static-embeddings.md` says why they are read by
//! code of our own.

mod correction;
mod encoder;
mod files;
mod matrix;
mod tensors;
mod tokenizer;
mod weights;

use std::path::{Path, PathBuf};

pub use encoder::TextEncoder;
use files::ModelFiles;
use tensors::TensorFile;
use tokenizer::Tokenizer;
use weights::TokenTable;

/// Longer texts are cut: the beginning says what a tool does, and this bounds the work of an update.
const MAX_LETTERS: usize = 4_000;

/// Why a model can not be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct ModelError {
    path: PathBuf,
    reason: String,
}

impl ModelError {
    fn new(path: &Path, reason: impl std::fmt::Display) -> Self {
        Self { path: path.to_owned(), reason: reason.to_string() }
    }
}

/// What is told of the model that is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFacts {
    /// Where it was read from.
    pub directory: PathBuf,
    /// How many tokens have a vector.
    pub tokens: usize,
    /// How many numbers a vector has.
    pub dimensions: usize,
    /// How many layers a transformer has; a static model has none.
    pub layers: usize,
    /// How it cuts text into tokens: `BPE`, `WordPiece` or `Unigram`.
    pub tokenizer: &'static str,
    /// Whether weights were corrected that this program knows a correction of.
    pub corrected: bool,
    /// What in its files is followed only nearly, for people.
    pub approximations: Vec<String>,
    /// How much memory it takes.
    pub bytes: usize,
}

/// A model of one of the kinds that are read.
#[derive(Debug)]
pub enum SearchModel {
    /// One vector per token: fast, and of no help where words mean something else together.
    Static(StaticModel),
    /// A small transformer.
    Encoder(TextEncoder),
}

impl SearchModel {
    /// Reads the model in a directory: `model.safetensors` and `tokenizer.json`, or the only `*.safetensors` and the only
    /// `*tokenizer*.json` there. What the weights are called says which kind it is.
    pub fn open(directory: &Path) -> Result<Self, ModelError> {
        let files = ModelFiles::find(directory)?;
        let file = TensorFile::open(&files.weights).map_err(|reason| ModelError::new(&files.weights, reason))?;
        if TextEncoder::fits(&file) {
            return TextEncoder::read(directory, &files, file).map(Self::Encoder);
        }
        StaticModel::read(directory, &files, file).map(Self::Static)
    }

    /// What is told of the model that is loaded.
    #[must_use]
    pub fn facts(&self) -> ModelFacts {
        match self {
            Self::Static(model) => model.facts(),
            Self::Encoder(model) => model.facts(),
        }
    }
}

/// A static model in memory. The numbers are kept as 8-bit integers with one scale per token.
#[derive(Debug)]
pub struct StaticModel {
    tokenizer: Tokenizer,
    table: TokenTable,
    directory: PathBuf,
}

impl StaticModel {
    /// Reads the static model in a directory; see [`SearchModel::open`].
    pub fn open(directory: &Path) -> Result<Self, ModelError> {
        let files = ModelFiles::find(directory)?;
        let file = TensorFile::open(&files.weights).map_err(|reason| ModelError::new(&files.weights, reason))?;
        Self::read(directory, &files, file)
    }

    fn read(directory: &Path, files: &ModelFiles, file: TensorFile) -> Result<Self, ModelError> {
        let tokenizer = std::fs::read(&files.tokenizer).map_err(|error| ModelError::new(&files.tokenizer, error))?;
        let tokenizer = Tokenizer::read(&tokenizer).map_err(|reason| ModelError::new(&files.tokenizer, reason))?;
        let table = weights::read(file).map_err(|reason| ModelError::new(&files.weights, reason))?;
        Ok(Self { tokenizer, table, directory: directory.to_owned() })
    }

    /// What is told of the model that is loaded, for people to see.
    #[must_use]
    pub fn facts(&self) -> ModelFacts {
        ModelFacts {
            directory: self.directory.clone(),
            tokens: self.table.tokens(),
            dimensions: self.table.dimensions(),
            layers: 0,
            tokenizer: self.tokenizer.kind(),
            corrected: false,
            approximations: self.tokenizer.approximations().to_vec(),
            bytes: self.table.bytes() + self.tokenizer.bytes(),
        }
    }

    /// How many numbers a vector has.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.table.dimensions()
    }

    /// The tokens of a text, as the model's own tokenizer cuts it, without marks of beginning and end.
    #[must_use]
    pub fn tokens(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode(beginning(text))
    }

    /// The sum of the vectors of a text's tokens is added to `sum`, times `weight`. Says how many tokens had one.
    pub(crate) fn add(&self, text: &str, weight: f32, sum: &mut [f32]) -> usize {
        let tokens = self.tokens(text);
        tokens.into_iter().filter(|token| self.table.add(*token, weight, sum)).count()
    }

    /// The vector of a text, of length one; nothing when no token of it is known.
    #[must_use]
    pub fn embed(&self, text: &str) -> Option<Vec<f32>> {
        let mut sum = vec![0.0; self.dimensions()];
        self.add(text, 1.0, &mut sum);
        normalise(sum)
    }
}

fn beginning(text: &str) -> &str {
    let end = text.char_indices().nth(MAX_LETTERS).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

/// The same direction with length one; nothing for a vector without a direction.
#[must_use]
pub fn normalise(mut vector: Vec<f32>) -> Option<Vec<f32>> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if !length.is_finite() || length <= f32::MIN_POSITIVE {
        return None;
    }
    vector.iter_mut().for_each(|x| *x /= length);
    Some(vector)
}
