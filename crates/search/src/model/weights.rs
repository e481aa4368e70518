//! The vectors of a model's tokens, as 8-bit integers.

use super::tensors::{TensorFile, TensorPlace};

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

pub(super) fn read(mut file: TensorFile) -> Result<TokenTable, String> {
    let place = TABLES.iter().map(|name| file.find(name)).find(|place| !matches!(place, Ok(None)));
    let place = place.unwrap_or(Ok(None))?.ok_or_else(|| format!("it has neither of {TABLES:?}"))?;
    // Where the file has weights per token, too, `weigh_tokens` gives each token a row of its own.
    let mapping = match file.find("mapping")? {
        Some(place) => Some(numbers(&mut file, &place)?.into_iter().map(|number| number as u32).collect()),
        None => None,
    };
    let weights = match file.find("weights")? {
        Some(place) => Some(numbers(&mut file, &place)?),
        None => None,
    };
    let mut table = TokenTable { mapping, ..read_table(&mut file, &place)? };
    match (weights, &table.mapping) {
        (None, _) => {}
        (Some(weights), None) if weights.len() == table.scales.len() => {
            table.scales.iter_mut().zip(weights).for_each(|(scale, weight)| *scale *= weight as f32);
        }
        (Some(weights), Some(mapping)) if weights.len() == mapping.len() => table.weigh_tokens(&weights),
        _ => return Err("it has another number of weights than of tokens".into()),
    }
    Ok(table)
}

/// A table with one row per token.
pub(super) fn read_table(file: &mut TensorFile, place: &TensorPlace) -> Result<TokenTable, String> {
    let [tokens, dimensions] = place.shape.as_slice() else { return Err("the table is not one of rows".into()) };
    let (tokens, dimensions) = (*tokens, *dimensions);
    if !(1..=MAX_TOKENS).contains(&tokens) || !(1..=MAX_DIMENSIONS).contains(&dimensions) {
        return Err(format!("a table of {tokens} rows of {dimensions} is not one of a model"));
    }
    let (rows, scales) = (Vec::with_capacity(tokens * dimensions), Vec::with_capacity(tokens));
    let mut table = TokenTable { dimensions, rows, scales, mapping: None };
    let mut numbers = vec![0.0_f32; dimensions];
    file.rows(place, dimensions, |row| {
        numbers.iter_mut().zip(row).for_each(|(number, exact)| *number = *exact as f32);
        table.push(&numbers)
    })?;
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

fn numbers(file: &mut TensorFile, place: &TensorPlace) -> Result<Vec<f64>, String> {
    let count: usize = place.shape.iter().product();
    if count > MAX_TOKENS {
        return Err("it has more tokens than a model".into());
    }
    let mut all = Vec::with_capacity(count);
    file.rows(place, count, |row| {
        all.extend_from_slice(row);
        Ok(())
    })?;
    Ok(all)
}
