//! The vectors of documents: 8-bit integers, one row per slot. A query is compared with all of them, one after the other:
//! for catalogues of tools that is faster than any structure that would have to be kept up to date.

use crate::postings::Slot;

/// The vectors of tools, by the slot of the tool in the index.
#[derive(Debug, Default)]
pub(crate) struct VectorTable {
    dimensions: usize,
    rows: Vec<i8>,
    /// What a row is to be multiplied by; zero where there is no vector.
    scales: Vec<f32>,
}

impl VectorTable {
    /// Keeps the vector of a slot. One of another length than those before begins a new table: another model answers.
    pub(crate) fn put(&mut self, slot: Slot, vector: &[f32]) {
        // Vectors of the model before can not be compared with it; their tools are found by words until they change.
        if self.dimensions != vector.len() {
            *self = Self { dimensions: vector.len(), ..Self::default() };
        }
        let slot = slot as usize;
        if self.scales.len() <= slot {
            self.scales.resize(slot + 1, 0.0);
            self.rows.resize((slot + 1) * self.dimensions, 0);
        }
        let row = &mut self.rows[slot * self.dimensions..(slot + 1) * self.dimensions];
        self.scales[slot] = quantise(vector, row);
    }

    /// Forgets the vector of a slot.
    pub(crate) fn remove(&mut self, slot: Slot) {
        // The numbers stay until the slot is used again; without a scale they are not looked at.
        if let Some(scale) = self.scales.get_mut(slot as usize) {
            *scale = 0.0;
        }
    }

    /// How near each slot is to a query: 1 is the same direction, 0 says nothing. As many as there are slots.
    pub(crate) fn similarities(&self, query: &[f32], slots: usize) -> Vec<f32> {
        let mut near = vec![0.0; slots];
        // A vector of another length is of another model and can not be compared.
        if query.len() != self.dimensions || self.dimensions == 0 {
            return near;
        }
        let mut asked = vec![0; query.len()];
        let scale = quantise(query, &mut asked);
        let rows = self.rows.chunks_exact(self.dimensions).zip(&self.scales);
        for (near, (row, row_scale)) in near.iter_mut().zip(rows) {
            if *row_scale > 0.0 {
                *near = dot(row, &asked) as f32 * row_scale * scale;
            }
        }
        near
    }

    /// How many slots have a vector.
    pub(crate) fn len(&self) -> usize {
        self.scales.iter().filter(|scale| **scale > 0.0).count()
    }

    /// How much memory they take.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.capacity() + self.scales.capacity() * 4
    }
}

fn quantise(vector: &[f32], row: &mut [i8]) -> f32 {
    let most = vector.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
    let scale = most / 127.0;
    let turn = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    row.iter_mut().zip(vector).for_each(|(row, number)| *row = (number * turn).round() as i8);
    scale
}

fn dot(a: &[i8], b: &[i8]) -> i32 {
    // Written so that the compiler uses the processor's instruction for sums of products.
    a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarity_is_the_cosine_up_to_rounding() {
        let mut table = VectorTable::default();
        table.put(1, &[0.6, 0.8, 0.0]);
        table.put(3, &[-1.0, 0.0, 0.0]);
        let near = table.similarities(&[1.0, 0.0, 0.0], 5);
        assert!((near[1] - 0.6).abs() < 0.01 && (near[3] + 1.0).abs() < 0.01, "{near:?}");
        assert_eq!((near[0], near[2], near[4]), (0.0, 0.0, 0.0));
        table.remove(1);
        assert_eq!((table.similarities(&[1.0, 0.0, 0.0], 2)[1], table.len()), (0.0, 1));
        assert_eq!(table.similarities(&[1.0, 0.0], 2), [0.0, 0.0], "a vector of another model says nothing");
    }
}
