//! Tensors of a safetensors file: a length, a JSON header, and numbers.
//!
//! The file is read from its beginning to its end, row by row, and never held as a whole: mapping it into memory would need
//! `unsafe`, which this project does without.

use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use serde_json::Value;

/// A header is some hundred bytes, or some thousand for many layers; a file that claims more is something else.
const MAX_HEADER: u64 = 16 << 20;

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
pub(super) struct TensorPlace {
    format: NumberFormat,
    pub(super) shape: Vec<usize>,
    start: u64,
}

impl TensorPlace {
    /// `held`: how many bytes of tensors the file has.
    fn find(header: &Value, name: &str, held: u64) -> Result<Option<Self>, String> {
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
                // Whoever reads it makes room for all of it at once.
                if *end as u64 > held {
                    return Err("it is cut off".into());
                }
                Ok(Some(Self { format, shape, start: *start as u64 }))
            }
            _ => Err(format!("`{name}` is not as long as its shape says")),
        }
    }
}

/// A file on disk, or one that is part of this program.
trait TensorSource: Read + Seek + Send {}

impl<T: Read + Seek + Send> TensorSource for T {}

/// A file whose header was read.
pub(super) struct TensorFile {
    file: BufReader<Box<dyn TensorSource>>,
    header: Value,
    /// Offsets of tensors count from the end of the header.
    data: u64,
    /// How many bytes come after it.
    held: u64,
}

impl TensorFile {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let size = file.metadata().map_err(|error| error.to_string())?.len();
        Self::read(Box::new(file), size)
    }

    /// A file that is part of this program.
    pub(super) fn of_bytes(bytes: impl AsRef<[u8]> + Send + 'static) -> Result<Self, String> {
        let size = bytes.as_ref().len() as u64;
        Self::read(Box::new(Cursor::new(bytes)), size)
    }

    fn read(source: Box<dyn TensorSource>, size: u64) -> Result<Self, String> {
        let mut file = BufReader::with_capacity(1 << 16, source);
        let mut length = [0; 8];
        file.read_exact(&mut length).map_err(|error| cut_off(&error))?;
        let length = u64::from_le_bytes(length);
        if length > MAX_HEADER {
            return Err("it is no safetensors file".into());
        }
        let mut header = vec![0; length as usize];
        file.read_exact(&mut header).map_err(|error| cut_off(&error))?;
        let header: Value = serde_json::from_slice(&header).map_err(|_| "it is no safetensors file")?;
        Ok(Self { file, header, data: 8 + length, held: size.saturating_sub(8 + length) })
    }

    /// Where a tensor is, if the file has it.
    pub(super) fn find(&self, name: &str) -> Result<Option<TensorPlace>, String> {
        TensorPlace::find(&self.header, name, self.held)
    }

    /// What the file's maker noted under a name.
    pub(super) fn note(&self, name: &str) -> Result<String, String> {
        let note = self.header["__metadata__"][name].as_str().map(str::to_owned);
        note.ok_or_else(|| format!("it does not say its `{name}`"))
    }

    /// The tensors whose names end so, without that end.
    pub(super) fn names_ending(&self, end: &str) -> Vec<String> {
        let names = self.header.as_object().into_iter().flatten().map(|(name, _)| name);
        names.filter_map(|name| name.strip_suffix(end)).map(str::to_owned).collect()
    }

    /// All numbers of a tensor, `width` at a time.
    pub(super) fn rows(
        &mut self,
        place: &TensorPlace,
        width: usize,
        mut take: impl FnMut(&[f64]) -> Result<(), String>,
    ) -> Result<(), String> {
        let count = place.shape.iter().product::<usize>().checked_div(width).unwrap_or(0);
        self.file.seek(SeekFrom::Start(self.data + place.start)).map_err(|error| error.to_string())?;
        let mut bytes = vec![0; width * place.format.width()];
        let mut row = vec![0.0; width];
        for _ in 0..count {
            self.file.read_exact(&mut bytes).map_err(|error| cut_off(&error))?;
            for (number, bytes) in row.iter_mut().zip(bytes.chunks_exact(place.format.width())) {
                *number = place.format.read(bytes);
            }
            take(&row)?;
        }
        Ok(())
    }
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
