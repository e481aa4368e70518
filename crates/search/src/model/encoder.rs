//! A small transformer: the vector of a text depends on how its words stand together, not only on which they are.
//!
//! Read are models of the form of BERT with word pieces, as the Sentence Transformers MiniLM, BGE, GTE and E5 (small ones) are
//! published. `docs/adr/0092-a-small-transformer.md` says why, and what it costs.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::correction::ModelCorrection;
use super::matrix::{Layer, Multiplier, WeightSource, vector};
use super::tensors::TensorFile;
use super::tokenizer::Tokenizer;
use super::weights::{self, TokenTable};
use super::{ModelError, ModelFacts, ModelFiles, beginning, normalise};

/// Longer texts are cut: this bounds the work of a question and of an update.
const MAX_TOKENS: usize = 64;
const MAX_LAYERS: usize = 48;
const MAX_DIMENSIONS: usize = 4_096;
/// What BERT adds to a variance before it divides by its root.
const EPSILON: f32 = 1e-12;
/// The tensor that only such models have.
const WORDS: &str = "embeddings.word_embeddings.weight";

/// A transformer in memory. Its weights are 8-bit integers.
pub struct TextEncoder {
    tokenizer: Tokenizer,
    directory: PathBuf,
    /// The marks at the beginning and at the end of a text.
    marks: [u32; 2],
    words: TokenTable,
    /// What is added by the place of a token in its text.
    places: Vec<f32>,
    norm: Norm,
    layers: Vec<Block>,
    heads: usize,
    /// Whether the mark at the beginning stands for the text; otherwise, and where nothing says so, all tokens do.
    pooling: Option<bool>,
    /// Whether its weights were corrected for finding tools.
    corrected: bool,
    gelu: Gelu,
    /// One thread that all multiplications run on. Without it the library would use one per processor, for steps so small
    /// that handing them over costs more than it saves.
    thread: rayon::ThreadPool,
}

impl fmt::Debug for TextEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextEncoder").field("directory", &self.directory).finish_non_exhaustive()
    }
}

struct Block {
    /// Questions, keys and values, one after the other.
    attention: Layer,
    attention_output: Layer,
    attention_norm: Norm,
    wide: Layer,
    narrow: Layer,
    norm: Norm,
}

struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

/// The function between two steps, as a table: it is asked for some hundred thousand times per text.
struct Gelu(Vec<f32>);

impl TextEncoder {
    /// Whether the file is one of such a model.
    pub(super) fn fits(file: &TensorFile) -> bool {
        prefix(file).is_some()
    }

    pub(super) fn read(directory: &Path, files: &ModelFiles, file: TensorFile) -> Result<Self, ModelError> {
        let tokenizer = std::fs::read(&files.tokenizer).map_err(|error| ModelError::new(&files.tokenizer, error))?;
        let tokenizer = Tokenizer::read(&tokenizer).map_err(|reason| ModelError::new(&files.tokenizer, reason))?;
        let mark = |name: &str| {
            let missing =
                || ModelError::new(&files.tokenizer, format!("a transformer needs word pieces with `{name}`"));
            tokenizer.piece(name).ok_or_else(missing)
        };
        let marks = [mark("[CLS]")?, mark("[SEP]")?];
        let settings = ModelSettings::read(directory);
        Self::assemble(directory, tokenizer, marks, &settings, file)
            .map_err(|reason| ModelError::new(&files.weights, reason))
    }

    fn assemble(
        directory: &Path,
        tokenizer: Tokenizer,
        marks: [u32; 2],
        settings: &ModelSettings,
        mut file: TensorFile,
    ) -> Result<Self, String> {
        let prefix = prefix(&file).unwrap_or_default();
        let words = file.find(&format!("{prefix}{WORDS}"))?.ok_or("it has no words")?;
        let words = weights::read_table(&mut file, &words)?;
        let width = words.dimensions();
        let heads = settings.heads.unwrap_or(if width == 384 { 12 } else { width / 64 });
        if width > MAX_DIMENSIONS || heads == 0 || !width.is_multiple_of(heads) {
            return Err(format!("{width} numbers can not be divided among {heads} heads"));
        }
        if let Some(other) = settings.activation.as_deref().filter(|name| *name != "gelu") {
            return Err(format!("its layers are joined by {other}; only gelu is known"));
        }
        let by = Multiplier::default();
        let thread = rayon::ThreadPoolBuilder::new().num_threads(1).thread_name(|_| "search-model".to_owned());
        let thread = thread.build().map_err(|error| error.to_string())?;
        let places = places(&mut file, &prefix, width)?;
        let norm = Norm::read(&mut file, &format!("{prefix}embeddings.LayerNorm"), width)?;
        let correction = ModelCorrection::of(&mut file, &prefix)?;
        let mut layers = Vec::new();
        loop {
            let name = format!("encoder.layer.{}.", layers.len());
            if file.find(&format!("{prefix}{name}attention.self.query.weight"))?.is_none() {
                break;
            }
            if layers.len() == MAX_LAYERS {
                return Err(format!("it has more than {MAX_LAYERS} layers"));
            }
            // Preparing a matrix is shared among threads, too.
            layers.push(thread.install(|| {
                let correction = correction.as_ref();
                let mut weights = WeightSource { file: &mut file, by: &by, prefix: &prefix, correction };
                Block::read(&mut weights, &name, width)
            })?);
        }
        if layers.is_empty() {
            return Err("it has no layers".into());
        }
        let pooling = settings.first_stands_for_all;
        let directory = directory.to_owned();
        let gelu = Gelu::new();
        let corrected = correction.is_some();
        Ok(Self { tokenizer, directory, marks, words, places, norm, layers, heads, pooling, corrected, gelu, thread })
    }

    /// What is told of the model that is loaded, for people to see.
    #[must_use]
    pub fn facts(&self) -> ModelFacts {
        let layers = self.layers.iter().map(Block::bytes).sum::<usize>();
        let mut approximations = self.tokenizer.approximations().to_vec();
        if self.pooling.is_none() {
            // Models that are trained to use the first mark give poor vectors otherwise, and no error.
            approximations.push("no `1_Pooling/config.json` says what stands for a text: all tokens do".to_owned());
        }
        ModelFacts {
            directory: self.directory.clone(),
            tokens: self.words.tokens(),
            dimensions: self.words.dimensions(),
            layers: self.layers.len(),
            tokenizer: self.tokenizer.kind(),
            corrected: self.corrected,
            approximations,
            bytes: self.words.bytes() + self.places.len() * 4 + layers + self.tokenizer.bytes(),
        }
    }

    /// The vector of a text, of length one; nothing when no word of it is known. Takes about a millisecond.
    #[must_use]
    pub fn embed(&self, text: &str) -> Option<Vec<f32>> {
        let mut tokens = self.tokenizer.encode(beginning(text));
        if tokens.is_empty() {
            return None;
        }
        tokens.truncate(MAX_TOKENS - self.marks.len());
        tokens.insert(0, self.marks[0]);
        tokens.push(self.marks[1]);
        match self.thread.install(|| self.encode(&tokens)) {
            Ok(vector) => normalise(vector),
            Err(error) => {
                tracing::warn!(error, "a text could not be read by the model; it is searched by words");
                None
            }
        }
    }

    fn encode(&self, tokens: &[u32]) -> Result<Vec<f32>, String> {
        // Made for each text, because it can not be sent to another thread; it is a box and a look at the processor.
        let by = Multiplier::default();
        let width = self.words.dimensions();
        let tokens = &tokens[..tokens.len().min(self.places.len() / width)];
        let mut state = self.places[..tokens.len() * width].to_vec();
        for (row, token) in state.chunks_exact_mut(width).zip(tokens) {
            self.words.add(*token, 1.0, row);
        }
        self.norm.apply(&mut state);
        for block in &self.layers {
            let asked = block.attention.apply(&by, &state)?;
            let mixed = block.attention_output.apply(&by, &attend(&asked, width, self.heads))?;
            state.iter_mut().zip(mixed).for_each(|(state, mixed)| *state += mixed);
            block.attention_norm.apply(&mut state);
            let mut wide = block.wide.apply(&by, &state)?;
            self.gelu.apply(&mut wide);
            let narrow = block.narrow.apply(&by, &wide)?;
            state.iter_mut().zip(narrow).for_each(|(state, narrow)| *state += narrow);
            block.norm.apply(&mut state);
        }
        if self.pooling == Some(true) {
            state.truncate(width);
            return Ok(state);
        }
        let mut sum = vec![0.0; width];
        for row in state.chunks_exact(width) {
            sum.iter_mut().zip(row).for_each(|(sum, number)| *sum += number);
        }
        Ok(sum)
    }
}

/// What stands before the names of tensors, if this is such a model at all.
fn prefix(file: &TensorFile) -> Option<String> {
    let has = |prefix: &&str| matches!(file.find(&format!("{prefix}{WORDS}")), Ok(Some(_)));
    ["", "bert.", "0.auto_model."].into_iter().find(has).map(str::to_owned)
}

/// What each place adds; the kind of the text is always the first, so that it is added here, too.
fn places(file: &mut TensorFile, prefix: &str, width: usize) -> Result<Vec<f32>, String> {
    let read = |file: &mut TensorFile, name: &str, rows: usize| {
        let name = format!("{prefix}embeddings.{name}.weight");
        let place = file.find(&name)?.ok_or_else(|| format!("it has no `{name}`"))?;
        if place.shape.len() != 2 || place.shape[1] != width || place.shape[0] == 0 {
            return Err(format!("`{name}` does not have {width} numbers each"));
        }
        let mut numbers = Vec::new();
        file.rows(&place, width, |row| {
            if numbers.len() < rows * width {
                numbers.extend(row.iter().map(|number| *number as f32));
            }
            Ok(())
        })?;
        Ok(numbers)
    };
    // Texts are no longer than this, so that places after it would never be asked for.
    let mut places = read(file, "position_embeddings", MAX_TOKENS)?;
    let kind = read(file, "token_type_embeddings", 1)?;
    for row in places.chunks_exact_mut(width) {
        row.iter_mut().zip(&kind).for_each(|(place, kind)| *place += kind);
    }
    Ok(places)
}

/// Each token takes from all tokens, by how well its question fits their keys; each head by itself.
fn attend(asked: &[f32], width: usize, heads: usize) -> Vec<f32> {
    let (rows, part) = (asked.len() / (3 * width), width / heads);
    let share = 1.0 / (part as f32).sqrt();
    let mut out = vec![0.0; rows * width];
    let mut fits = vec![0.0; rows];
    for head in 0..heads {
        // Questions are the first part of a row, keys the second, values the third.
        let of = |row: usize, third: usize| {
            let start = row * 3 * width + third * width + head * part;
            &asked[start..start + part]
        };
        for row in 0..rows {
            let question = of(row, 0);
            for (other, fit) in fits.iter_mut().enumerate() {
                *fit = dot(question, of(other, 1)) * share;
            }
            let most = fits.iter().copied().fold(f32::MIN, f32::max);
            fits.iter_mut().for_each(|fit| *fit = (*fit - most).exp());
            let sum: f32 = fits.iter().sum();
            let out = &mut out[row * width + head * part..][..part];
            for (other, fit) in fits.iter().enumerate() {
                out.iter_mut().zip(of(other, 2)).for_each(|(out, value)| *out += fit / sum * value);
            }
        }
    }
    out
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    // Eight sums beside each other, because the compiler must not change the order of one.
    let mut sums = [0.0_f32; 8];
    for (a, b) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    let rest = a.len() / 8 * 8;
    sums.iter().sum::<f32>() + a[rest..].iter().zip(&b[rest..]).map(|(a, b)| a * b).sum::<f32>()
}

impl Block {
    fn read(weights: &mut WeightSource<'_>, name: &str, width: usize) -> Result<Self, String> {
        let own = |part: &str| format!("{name}{part}");
        let prefix = weights.prefix;
        let prefixed = |part: &str| format!("{prefix}{name}{part}");
        let asked = ["query", "key", "value"].map(|part| own(&format!("attention.self.{part}")));
        let wide = Layer::read(weights, &[own("intermediate.dense")], width)?;
        let block = Self {
            attention: Layer::read(weights, &asked, width)?,
            attention_output: Layer::read(weights, &[own("attention.output.dense")], width)?,
            attention_norm: Norm::read(weights.file, &prefixed("attention.output.LayerNorm"), width)?,
            narrow: Layer::read(weights, &[own("output.dense")], wide.outputs())?,
            wide,
            norm: Norm::read(weights.file, &prefixed("output.LayerNorm"), width)?,
        };
        let right = block.attention.outputs() == 3 * width
            && [&block.attention_output, &block.narrow].iter().all(|layer| layer.outputs() == width);
        if right { Ok(block) } else { Err(format!("the parts of `{name}` do not fit together")) }
    }

    fn bytes(&self) -> usize {
        [&self.attention, &self.attention_output, &self.wide, &self.narrow].iter().map(|layer| layer.bytes()).sum()
    }
}

impl Norm {
    fn read(file: &mut TensorFile, name: &str, width: usize) -> Result<Self, String> {
        let weight = vector(file, &format!("{name}.weight"), width)?;
        Ok(Self { weight, bias: vector(file, &format!("{name}.bias"), width)? })
    }

    fn apply(&self, state: &mut [f32]) {
        let width = self.weight.len();
        for row in state.chunks_exact_mut(width) {
            let mean = row.iter().sum::<f32>() / width as f32;
            row.iter_mut().for_each(|number| *number -= mean);
            let variance = dot(row, row) / width as f32;
            let turn = 1.0 / (variance + EPSILON).sqrt();
            let parts = row.iter_mut().zip(&self.weight).zip(&self.bias);
            parts.for_each(|((number, weight), bias)| *number = *number * turn * weight + bias);
        }
    }
}

impl Gelu {
    /// Beyond this the function is its argument, or zero.
    const END: f32 = 8.0;
    const STEPS: f32 = 256.0;

    fn new() -> Self {
        let count = (2.0 * Self::END * Self::STEPS) as usize;
        Self((0..=count + 1).map(|at| gelu(at as f64 / f64::from(Self::STEPS) - f64::from(Self::END)) as f32).collect())
    }

    fn apply(&self, numbers: &mut [f32]) {
        for number in numbers {
            if *number >= Self::END {
                continue;
            }
            let at = (*number + Self::END) * Self::STEPS;
            *number = if at > 0.0 {
                let below = at as usize;
                let (low, high) = (self.0[below], self.0[below + 1]);
                low + (high - low) * (at - below as f32)
            } else {
                0.0
            };
        }
    }
}

/// The function itself, by the formula 7.1.26 of Abramowitz and Stegun for the error function.
fn gelu(x: f64) -> f64 {
    let z = x.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let sum = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let tail = sum.iter().fold(0.0, |sum, factor| sum * t + factor) * t * (-z * z).exp();
    x * if x < 0.0 { tail / 2.0 } else { 1.0 - tail / 2.0 }
}

/// What the files beside the weights say.
struct ModelSettings {
    heads: Option<usize>,
    activation: Option<String>,
    /// Whether the mark at the beginning stands for the text. `None`: nothing says so, and all tokens do.
    first_stands_for_all: Option<bool>,
}

impl ModelSettings {
    /// Files that are not there say nothing: packages leave some out, or put one in the place of another.
    fn read(directory: &Path) -> Self {
        let read = |name: &str| -> Value {
            let text = std::fs::read(directory.join(name)).unwrap_or_default();
            serde_json::from_slice(&text).unwrap_or_default()
        };
        let (config, pooling) = (read("config.json"), read("1_Pooling/config.json"));
        Self {
            heads: config["num_attention_heads"].as_u64().and_then(|heads| usize::try_from(heads).ok()),
            activation: config["hidden_act"].as_str().map(str::to_owned),
            first_stands_for_all: [&pooling, &config].iter().find_map(|file| file["pooling_mode_cls_token"].as_bool()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_between_the_layers_is_the_function() {
        let mut numbers = [-9.0, -8.0, -1.0, -0.001, 0.0, 0.3, 1.0, 7.999, 8.0, 50.0, f32::INFINITY];
        let exact = numbers.map(|number: f32| if number > 20.0 { number } else { gelu(f64::from(number)) as f32 });
        Gelu::new().apply(&mut numbers);
        for (number, exact) in numbers.iter().zip(exact) {
            assert!(number == &exact || (number - exact).abs() < 1e-4, "{number} {exact}");
        }
        assert!((gelu(1.0) - 0.841_344_7).abs() < 1e-6, "as tables of the function have it");
    }

    #[test]
    fn each_head_takes_from_the_token_that_fits_its_question() {
        // Two tokens, two heads of one number. The first head of the first token asks for the second token.
        let asked = [9.0, 0.0, /* keys */ -9.0, 0.0, /* values */ 1.0, 2.0, 0.0, 0.0, 9.0, 0.0, 5.0, 4.0];
        let taken = attend(&asked, 2, 2);
        assert!((taken[0] - 5.0).abs() < 1e-3 && (taken[1] - 3.0).abs() < 1e-3, "{taken:?}");
    }
}
