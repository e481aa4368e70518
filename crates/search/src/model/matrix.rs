//! Matrices of a model as 8-bit integers, multiplied with numbers that are rounded to 8 bits for the occasion.

use rten_gemm::{GemmExecutor, GemmInputA, GemmInputB, GemmOptions, PackedBMatrix, QuantParams};
use rten_tensor::prelude::*;
use rten_tensor::{NdTensor, NdTensorView};

use super::correction::ModelCorrection;
use super::tensors::TensorFile;

/// What zero is in an unsigned byte.
const ZERO: u8 = 128;

/// Multiplies with the best instructions that the processor has.
pub(super) type Multiplier = GemmExecutor<u8, i8, i32>;

/// Where the weights of steps come from.
pub(super) struct WeightSource<'a> {
    pub(super) file: &'a mut TensorFile,
    pub(super) by: &'a Multiplier,
    /// What stands before the names of tensors.
    pub(super) prefix: &'a str,
    /// What is added to them.
    pub(super) correction: Option<&'a ModelCorrection>,
}

/// The weights of one step, with what is added after them.
pub(super) struct Layer {
    inputs: usize,
    packed: PackedBMatrix<i8>,
    /// What a column of the product is to be multiplied by.
    scales: Vec<f32>,
    bias: Vec<f32>,
}

impl Layer {
    /// Reads `NAME.weight` and `NAME.bias`. Several names are put one below the other: what has the same input is multiplied
    /// at once.
    pub(super) fn read(weights: &mut WeightSource<'_>, names: &[String], inputs: usize) -> Result<Self, String> {
        let WeightSource { file, by, prefix, correction } = weights;
        let (mut numbers, mut scales, mut bias) = (Vec::new(), Vec::new(), Vec::new());
        let largest = largest_weight(by.may_saturate());
        let mut exact = vec![0.0; inputs];
        for name in names {
            let factors = correction.and_then(|correction| correction.factors(name));
            let name = format!("{prefix}{name}");
            let weight = format!("{name}.weight");
            let place = file.find(&weight)?.ok_or_else(|| format!("it has no `{weight}`"))?;
            if place.shape.len() != 2 || place.shape[1] != inputs || inputs == 0 {
                return Err(format!("`{weight}` does not take {inputs} numbers"));
            }
            if place.shape[0] == 0 {
                return Err(format!("`{weight}` gives no numbers"));
            }
            let mut at = 0;
            file.rows(&place, inputs, |row| {
                let row = match factors {
                    Some(factors) => {
                        exact.copy_from_slice(row);
                        factors.add_to(at, &mut exact);
                        exact.as_slice()
                    }
                    None => row,
                };
                at += 1;
                let most = row.iter().fold(0.0_f64, |most, number| most.max(number.abs()));
                if row.iter().any(|number| !number.is_finite()) {
                    return Err(format!("`{weight}` has numbers that are none"));
                }
                let turn = if most > 0.0 { largest / most } else { 0.0 };
                numbers.extend(row.iter().map(|number| (number * turn).round() as i8));
                scales.push((most / largest) as f32);
                Ok(())
            })?;
            bias.extend(vector(file, &format!("{name}.bias"), place.shape[0])?);
        }
        // The file has a row per output; the product wants a column per output.
        let packed = by.prepack_b(NdTensor::from_data([scales.len(), inputs], numbers).transposed());
        Ok(Self { inputs, packed, scales, bias })
    }

    pub(super) fn outputs(&self) -> usize {
        self.scales.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.inputs * self.outputs() + self.outputs() * 8
    }

    /// One row of outputs for each row of inputs.
    pub(super) fn apply(&self, by: &Multiplier, input: &[f32]) -> Result<Vec<f32>, String> {
        let rows = input.len() / self.inputs;
        let mut rounded = Vec::with_capacity(input.len());
        let mut row_scales = Vec::with_capacity(rows);
        for row in input.chunks_exact(self.inputs) {
            let most = row.iter().fold(f32::MIN_POSITIVE, |most, number| most.max(number.abs()));
            let turn = 127.0 / most;
            // Moved to positive numbers before they are cut off: that rounds to the nearest, and faster than `round`.
            rounded.extend(row.iter().map(|number| (number * turn + (f32::from(ZERO) + 0.5)) as u8));
            row_scales.push(most / 127.0);
        }
        let zero = vec![ZERO; rows];
        let options = GemmOptions { a_quant: Some(QuantParams { zero_point: &zero }), ..GemmOptions::default() };
        let mut product = vec![0_i32; rows * self.outputs()];
        let left = GemmInputA::Unpacked(NdTensorView::from_data([rows, self.inputs], rounded.as_slice()));
        by.gemm(&mut product, left, GemmInputB::Packed(&self.packed), options).map_err(|error| error.to_string())?;
        let mut output = Vec::with_capacity(product.len());
        for (row, row_scale) in product.chunks_exact(self.outputs()).zip(row_scales) {
            let columns = row.iter().zip(&self.scales).zip(&self.bias);
            output.extend(columns.map(|((sum, scale), bias)| *sum as f32 * (row_scale * scale) + bias));
        }
        Ok(output)
    }
}

/// The largest weight, as an integer.
fn largest_weight(may_saturate: bool) -> f64 {
    // Processors of x86 without VNNI add two products of a weight and a byte in 16 bits, and cut off what does not fit there:
    // 2 × 255 × 64 does, 2 × 255 × 127 would not. It costs one bit of the weights.
    if may_saturate { 64.0 } else { 127.0 }
}

/// The numbers of a tensor that is as long as expected.
pub(super) fn vector(file: &mut TensorFile, name: &str, length: usize) -> Result<Vec<f32>, String> {
    let place = file.find(name)?.ok_or_else(|| format!("it has no `{name}`"))?;
    if place.shape.iter().product::<usize>() != length {
        return Err(format!("`{name}` has not {length} numbers"));
    }
    let mut numbers = Vec::with_capacity(length);
    file.rows(&place, length, |row| {
        numbers.extend(row.iter().map(|number| *number as f32));
        Ok(())
    })?;
    Ok(numbers)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;
    use tidings_testkit::TempDir;

    use super::*;

    #[test]
    fn the_largest_numbers_are_multiplied_without_being_cut_off() {
        const INPUTS: usize = 64;
        let directory = TempDir::new();
        let numbers: Vec<f32> = vec![1.0; INPUTS].into_iter().chain(vec![-1.0; INPUTS]).chain([0.0, 0.5]).collect();
        let header = json!({
            "step.weight": {"dtype": "F32", "shape": [2, INPUTS], "data_offsets": [0, 8 * INPUTS]},
            "step.bias": {"dtype": "F32", "shape": [2], "data_offsets": [8 * INPUTS, 8 * INPUTS + 8]},
        });
        let header = header.to_string();
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        let path = directory.join("model.safetensors");
        std::fs::write(&path, file).unwrap();
        let by = Multiplier::default();
        let mut file = TensorFile::open(&path).unwrap();
        let mut weights = WeightSource { file: &mut file, by: &by, prefix: "", correction: None };
        let layer = Layer::read(&mut weights, &["step".to_owned()], INPUTS).unwrap();
        // Every product is as large as there can be, and all have one sign.
        let output = layer.apply(&by, &vec![3.0; INPUTS]).unwrap();
        assert!((output[0] - 192.0).abs() < 2.0 && (output[1] + 191.5).abs() < 2.0, "{output:?}");
        assert!(2 * 255 * largest_weight(true) as i32 <= i32::from(i16::MAX), "two products fit into 16 bits");
    }
}
