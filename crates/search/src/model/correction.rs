//! A small correction of a published model's weights, so that it knows better which tool answers an everyday question.
//!
//! What is added to a matrix is the product of two thin ones (a "low-rank" update), which take half a megabyte where the matrices
//! take ten. It fits one model only, and is told by a hash over the tensors that it changes: added to any other, it would be noise.
//! How it was made, and how to make it anew: `relevance/correction/README.md`.

use std::collections::BTreeMap;

use super::tensors::{TensorFile, TensorPlace};

/// The correction of all-MiniLM-L6-v2.
const MINILM: &[u8] = include_bytes!("../../data/minilm-correction.safetensors");
/// What the two factors of a matrix are called, after its name.
const FACTORS: [&str; 2] = [".outward", ".inward"];

/// What is added to the matrices of one model.
pub(super) struct ModelCorrection {
    by_name: BTreeMap<String, CorrectionFactors>,
    /// The hash of the tensors that it is for.
    fits: String,
}

/// What is added to one matrix.
pub(super) struct CorrectionFactors {
    outputs: usize,
    inputs: usize,
    rank: usize,
    /// A row of `rank` numbers per output.
    outward: Vec<f64>,
    /// A row of `inputs` numbers per rank.
    inward: Vec<f64>,
}

impl ModelCorrection {
    /// The correction of this model, if there is one. `prefix` stands before the names of its tensors.
    pub(super) fn of(file: &mut TensorFile, prefix: &str) -> Result<Option<Self>, String> {
        let correction = Self::read(MINILM).map_err(|reason| format!("the correction in this program: {reason}"))?;
        Ok(if correction.fits(file, prefix)? { Some(correction) } else { None })
    }

    fn read(bytes: impl AsRef<[u8]> + Send + 'static) -> Result<Self, String> {
        let mut file = TensorFile::of_bytes(bytes)?;
        let (fits, digest) = (file.note("fits")?, file.note("digest")?);
        let mut by_name = BTreeMap::new();
        for name in file.names_ending(FACTORS[0]) {
            by_name.insert(name.clone(), CorrectionFactors::read(&mut file, &name)?);
        }
        let correction = Self { by_name, fits };
        // Numbers that are wrong give poor vectors and no error, so that nobody would look for the reason here.
        if correction.digest() == digest { Ok(correction) } else { Err("it is damaged".into()) }
    }

    /// A hash over all its numbers.
    fn digest(&self) -> String {
        let mut hash = blake3::Hasher::new();
        for (name, factors) in &self.by_name {
            hash.update(name.as_bytes());
            for number in factors.outward.iter().chain(&factors.inward) {
                hash.update(&(*number as f32).to_le_bytes());
            }
        }
        hash.finalize().to_hex().to_string()
    }

    /// Whether the tensors that it would change are those that it was made for.
    fn fits(&self, file: &mut TensorFile, prefix: &str) -> Result<bool, String> {
        let mut hash = blake3::Hasher::new();
        let mut bytes = Vec::new();
        for (name, factors) in &self.by_name {
            // The shapes first: most other models need not be read for this.
            let place = file.find(&format!("{prefix}{name}.weight"))?;
            let Some(place) = place.filter(|place| place.shape == [factors.outputs, factors.inputs]) else {
                return Ok(false);
            };
            hash.update(name.as_bytes());
            file.rows(&place, factors.inputs, |row| {
                bytes.clear();
                bytes.extend(row.iter().flat_map(|number| (*number as f32).to_le_bytes()));
                hash.update(&bytes);
                Ok(())
            })?;
        }
        Ok(hash.finalize().to_hex().as_str() == self.fits)
    }

    /// What is added to a matrix; `name` is without the prefix of the model.
    pub(super) fn factors(&self, name: &str) -> Option<&CorrectionFactors> {
        self.by_name.get(name)
    }
}

impl CorrectionFactors {
    fn read(file: &mut TensorFile, name: &str) -> Result<Self, String> {
        let [outward, inward] = FACTORS.map(|factor| format!("{name}{factor}"));
        let place = |file: &TensorFile, name: &str| {
            let place = file.find(name)?.filter(|place| place.shape.len() == 2);
            place.ok_or_else(|| format!("it has no matrix `{name}`"))
        };
        let (out_place, in_place) = (place(file, &outward)?, place(file, &inward)?);
        let ([outputs, rank], [other, inputs]) = (sides(&out_place), sides(&in_place));
        if rank != other || rank == 0 {
            return Err(format!("the two factors of `{name}` do not fit together"));
        }
        let (outward, inward) = (numbers(file, &out_place, rank)?, numbers(file, &in_place, inputs)?);
        Ok(Self { outputs, inputs, rank, outward, inward })
    }

    /// Adds what belongs to one row of the matrix. `row` is as long as there are inputs.
    pub(super) fn add_to(&self, at: usize, row: &mut [f64]) {
        let weights = self.outward.chunks_exact(self.rank).nth(at).unwrap_or_default();
        for (weight, inward) in weights.iter().zip(self.inward.chunks_exact(self.inputs)) {
            row.iter_mut().zip(inward).for_each(|(number, inward)| *number += weight * inward);
        }
    }
}

fn sides(place: &TensorPlace) -> [usize; 2] {
    [place.shape.first().copied().unwrap_or(0), place.shape.get(1).copied().unwrap_or(0)]
}

fn numbers(file: &mut TensorFile, place: &TensorPlace, width: usize) -> Result<Vec<f64>, String> {
    let mut all = Vec::new();
    file.rows(place, width, |row| {
        all.extend_from_slice(row);
        Ok(())
    })?;
    Ok(all)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::{Value, json};

    use super::super::matrix::{Layer, Multiplier, WeightSource};
    use super::*;

    /// A safetensors file of 32-bit numbers.
    fn file(notes: &Value, tensors: &[(&str, [usize; 2], &[f32])]) -> Vec<u8> {
        let mut header = json!({ "__metadata__": notes });
        let mut data: Vec<u8> = Vec::new();
        for (name, shape, numbers) in tensors {
            let start = data.len();
            data.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            header[name] = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
        }
        let header = header.to_string();
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
    }

    /// A model of one step that gives back its two inputs, `first` times the first of them.
    fn model(first: f32) -> TensorFile {
        let numbers = [first, 0.0, 0.0, 1.0];
        let tensors = [("m.step.weight", [2, 2], numbers.as_slice()), ("m.step.bias", [1, 2], &[0.0, 0.0])];
        TensorFile::of_bytes(file(&json!({}), &tensors)).unwrap()
    }

    fn hash_of_step(numbers: [f32; 4]) -> String {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        blake3::hash(&[b"step".as_slice(), &bytes].concat()).to_hex().to_string()
    }

    /// What adds half of the second input to the first output of `model(1.0)`.
    fn correction(digest: &str) -> Result<ModelCorrection, String> {
        let notes = json!({"fits": hash_of_step([1.0, 0.0, 0.0, 1.0]), "digest": digest});
        let factors = [("step.outward", [2, 1], [0.5, 0.0].as_slice()), ("step.inward", [1, 2], &[0.0, 1.0])];
        ModelCorrection::read(file(&notes, &factors))
    }

    fn outputs(file: &mut TensorFile, correction: Option<&ModelCorrection>) -> Vec<f32> {
        let by = Multiplier::default();
        let mut weights = WeightSource { file, by: &by, prefix: "m.", correction };
        Layer::read(&mut weights, &["step".to_owned()], 2).unwrap().apply(&by, &[1.0, 1.0]).unwrap()
    }

    // issue 19
    #[test]
    fn the_model_that_it_was_made_for_is_corrected_and_another_one_of_the_same_shape_is_not() {
        let correction = correction(&hash_of_step([0.5, 0.0, 0.0, 1.0])).unwrap();
        let mut own = model(1.0);
        assert!(correction.fits(&mut own, "m.").unwrap() && !correction.fits(&mut own, "").unwrap());
        let (plain, corrected) = (outputs(&mut own, None), outputs(&mut own, Some(&correction)));
        assert!((plain[0] - 1.0).abs() < 0.02 && (corrected[0] - 1.5).abs() < 0.02, "{plain:?} {corrected:?}");
        assert!((plain[1] - corrected[1]).abs() < 0.02, "the second output has no correction");
        assert!(!correction.fits(&mut model(1.000_001), "m.").unwrap());
    }

    #[test]
    fn a_damaged_correction_is_refused() {
        assert!(ModelCorrection::read(MINILM).is_ok());
        assert!(correction("something else").is_err_and(|reason| reason.contains("damaged")));
        let mut changed = MINILM.to_vec();
        let last = changed.len() - 1;
        changed[last] ^= 1;
        assert!(ModelCorrection::read(changed).is_err_and(|reason| reason.contains("damaged")));
        assert!(ModelCorrection::read(&MINILM[..last]).is_err_and(|reason| reason.contains("cut off")));
        let odd = file(&json!({"fits": "", "digest": ""}), &[("step.outward", [2, 1], &[0.5, 0.0])]);
        assert!(ModelCorrection::read(odd).is_err_and(|reason| reason.contains("no matrix `step.inward`")));
    }
}
