//! The vectors of a model, from a safetensors file to 8-bit integers.
//!
//! The file is read from its beginning to its end, row by row, and never held as a whole: mapping it into memory would need
//! `unsafe`, which this project does without.

use std::fs::File;
use std::io::{BufReader, Read, Seek as _, SeekFrom};
use std::path::Path;

use serde_json::Value;

/// A header is some hundred bytes; a file that claims more is something else.
const MAX_HEADER: u64 = 16 << 20;
/// What the table is called: by Model2Vec, by WordLlama.
const TABLES: [&str; 2] = ["embeddings", "embedding.weight"];
const MAX_DIMENSIONS: usize = 4_096;
const MAX_TOKENS: usize = 4_000_000;

/// One row of integers and a scale per token.
#[derive(Debug)]
pub(super) struct TokenTable {
    dimensions: usize,
    rows: Vec<i8>,
    scales: Vec<f32>,
    /// Which row a token has, where several tokens share one (newer Model2Vec).
    mapping: Option<Vec<u32>>,
}

impl TokenTable {
    pub(super) fn tokens(&self) -> usize {
        self.mapping.as_ref().map_or(self.scales.len(), Vec::len)
    }

    pub(super) fn dimensions(&self) -> usize {
        self.dimensions
    }

    pub(super) fn bytes(&self) -> usize {
        self.rows.len() + self.scales.len() * 4 + self.mapping.as_ref().map_or(0, |rows| rows.len() * 4)
    }

    /// Adds the vector of a token, if it has one.
    pub(super) fn add(&self, token: u32, weight: f32, sum: &mut [f32]) -> bool {
        let row = match &self.mapping {
            Some(mapping) => mapping.get(token as usize).copied(),
            None => Some(token),
        };
        let Some(row) = row.map(|row| row as usize).filter(|row| *row < self.scales.len()) else { return false };
        let scale = self.scales[row] * weight;
        let numbers = &self.rows[row * self.dimensions..(row + 1) * self.dimensions];
        sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += f32::from(*number) * scale);
        true
    }
}

/// How numbers are written.
#[derive(Clone, Copy)]
enum NumberFormat {
    F64,
    F32,
    F16,
    Bf16,
    I8,
    I32,
    I64,
}

impl NumberFormat {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "F64" => Self::F64,
            "F32" => Self::F32,
            "F16" => Self::F16,
            "BF16" => Self::Bf16,
            "I8" => Self::I8,
            "I32" => Self::I32,
            "I64" => Self::I64,
            _ => return None,
        })
    }

    fn width(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::I8 => 1,
        }
    }

    /// Reads one number; `bytes` has its width.
    fn read(self, bytes: &[u8]) -> f64 {
        let two = || [bytes[0], bytes[1]];
        let four = || [bytes[0], bytes[1], bytes[2], bytes[3]];
        let eight = || [bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]];
        match self {
            Self::F64 => f64::from_le_bytes(eight()),
            Self::F32 => f64::from(f32::from_le_bytes(four())),
            Self::F16 => f64::from(half(u16::from_le_bytes(two()))),
            // bfloat16 is the upper half of an f32.
            Self::Bf16 => f64::from(f32::from_bits(u32::from(u16::from_le_bytes(two())) << 16)),
            Self::I8 => f64::from(bytes[0].cast_signed()),
            Self::I32 => f64::from(i32::from_le_bytes(four())),
            Self::I64 => i64::from_le_bytes(eight()) as f64,
        }
    }
}

/// A number of IEEE 754 with 16 bits.
fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from((bits >> 10) & 0x1f);
    let fraction = f32::from(bits & 0x3ff);
    match exponent {
        // Subnormal numbers have no implicit one before the point.
        0 => sign * fraction * 2.0_f32.powi(-24),
        31 if fraction == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1.0 + fraction / 1_024.0) * 2.0_f32.powi(exponent - 15),
    }
}

/// Where a tensor is in the file, and what it is made of.
struct TensorPlace {
    format: NumberFormat,
    shape: Vec<usize>,
    start: u64,
}

impl TensorPlace {
    fn find(header: &Value, name: &str) -> Result<Option<Self>, String> {
        let Some(tensor) = header.get(name) else { return Ok(None) };
        let format = tensor["dtype"].as_str().and_then(NumberFormat::of);
        let format = format.ok_or_else(|| format!("`{name}` is made of {}, which is not read", tensor["dtype"]))?;
        let numbers = |value: &Value| -> Option<Vec<usize>> {
            value.as_array()?.iter().map(|number| usize::try_from(number.as_u64()?).ok()).collect()
        };
        let shape = numbers(&tensor["shape"]).ok_or_else(|| format!("`{name}` has no shape"))?;
        let offsets = numbers(&tensor["data_offsets"]).unwrap_or_default();
        // The file comes from elsewhere: a shape that overflows, or that its offsets contradict, is refused before
        // anything is allocated.
        let size = shape.iter().try_fold(format.width(), |size, side| size.checked_mul(*side));
        match offsets.as_slice() {
            [start, end] if Some(*end) == size.and_then(|size| start.checked_add(size)) => {
                Ok(Some(Self { format, shape, start: *start as u64 }))
            }
            _ => Err(format!("`{name}` is not as long as its shape says")),
        }
    }
}

pub(super) fn read(path: &Path) -> Result<TokenTable, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut file = BufReader::with_capacity(1 << 16, file);
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(|error| cut_off(&error))?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER {
        return Err("it is no safetensors file".into());
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header).map_err(|error| cut_off(&error))?;
    let header: Value = serde_json::from_slice(&header).map_err(|_| "it is no safetensors file")?;
    // Offsets of tensors count from the end of the header.
    let data = 8 + length;
    let place = TABLES.iter().map(|name| TensorPlace::find(&header, name)).find(|place| !matches!(place, Ok(None)));
    let place = place.unwrap_or(Ok(None))?.ok_or_else(|| format!("it has neither of {TABLES:?}"))?;
    let [tokens, dimensions] = place.shape.as_slice() else { return Err("the table is not one of rows".into()) };
    let (tokens, dimensions) = (*tokens, *dimensions);
    if !(1..=MAX_TOKENS).contains(&tokens) || !(1..=MAX_DIMENSIONS).contains(&dimensions) {
        return Err(format!("a table of {tokens} rows of {dimensions} is not one of a model"));
    }
    let mapping = match TensorPlace::find(&header, "mapping")? {
        Some(place) => Some(numbers(&mut file, data, &place)?.into_iter().map(|number| number as u32).collect()),
        None => None,
    };
    let weights = match TensorPlace::find(&header, "weights")? {
        Some(place) => Some(numbers(&mut file, data, &place)?),
        None => None,
    };
    let mut table = TokenTable {
        dimensions,
        rows: Vec::with_capacity(tokens * dimensions),
        scales: Vec::with_capacity(tokens),
        // Where the file has weights per token, too, `weigh_tokens` gives each token a row of its own.
        mapping,
    };
    file.seek(SeekFrom::Start(data + place.start)).map_err(|error| error.to_string())?;
    let mut bytes = vec![0; dimensions * place.format.width()];
    let mut row = vec![0.0_f32; dimensions];
    for _ in 0..tokens {
        file.read_exact(&mut bytes).map_err(|error| cut_off(&error))?;
        for (number, bytes) in row.iter_mut().zip(bytes.chunks_exact(place.format.width())) {
            *number = place.format.read(bytes) as f32;
        }
        table.push(&row)?;
    }
    match (weights, &table.mapping) {
        (None, _) => {}
        (Some(weights), None) if weights.len() == tokens => {
            table.scales.iter_mut().zip(weights).for_each(|(scale, weight)| *scale *= weight as f32);
        }
        (Some(weights), Some(mapping)) if weights.len() == mapping.len() => table.weigh_tokens(&weights),
        _ => return Err("it has another number of weights than of tokens".into()),
    }
    Ok(table)
}

impl TokenTable {
    fn push(&mut self, row: &[f32]) -> Result<(), String> {
        let most = row.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
        if row.iter().any(|number| !number.is_finite()) {
            return Err("it has numbers that are none".into());
        }
        // 127 and not 128, so that a number and its negative are rounded alike.
        let scale = most / 127.0;
        let turn = if scale > 0.0 { 1.0 / scale } else { 0.0 };
        self.rows.extend(row.iter().map(|number| (number * turn).round() as i8));
        self.scales.push(scale);
        Ok(())
    }

    /// Gives each token a row of its own, times its weight, because tokens of one row may weigh differently.
    fn weigh_tokens(&mut self, weights: &[f64]) {
        let Some(mapping) = self.mapping.take() else { return };
        let mut rows = Vec::with_capacity(mapping.len() * self.dimensions);
        let mut scales = Vec::with_capacity(mapping.len());
        for (row, weight) in mapping.iter().map(|row| *row as usize).zip(weights) {
            match self.scales.get(row) {
                Some(scale) => {
                    rows.extend_from_slice(&self.rows[row * self.dimensions..(row + 1) * self.dimensions]);
                    scales.push(scale * *weight as f32);
                }
                // A token whose row does not exist adds nothing to a sum.
                None => {
                    rows.resize(rows.len() + self.dimensions, 0);
                    scales.push(0.0);
                }
            }
        }
        (self.rows, self.scales) = (rows, scales);
    }
}

fn numbers(file: &mut BufReader<File>, data: u64, place: &TensorPlace) -> Result<Vec<f64>, String> {
    let count: usize = place.shape.iter().product();
    if count > MAX_TOKENS {
        return Err("it has more tokens than a model".into());
    }
    file.seek(SeekFrom::Start(data + place.start)).map_err(|error| error.to_string())?;
    let mut bytes = vec![0; count * place.format.width()];
    file.read_exact(&mut bytes).map_err(|error| cut_off(&error))?;
    Ok(bytes.chunks_exact(place.format.width()).map(|bytes| place.format.read(bytes)).collect())
}

fn cut_off(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "it is cut off".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_sixteen_bits_are_read() {
        for (bits, number) in
            [(0x3c00, 1.0), (0xc000, -2.0), (0x3555, 0.333_251_95), (0x0001, 5.960_464_5e-8), (0, 0.0)]
        {
            assert_eq!(half(bits), number, "{bits:x}");
        }
        assert!(half(0x7c00).is_infinite() && half(0x7e00).is_nan());
    }
}
