//! Which files of a directory are the model's.

use std::path::{Path, PathBuf};

use super::ModelError;

pub(super) struct ModelFiles {
    pub(super) weights: PathBuf,
    pub(super) tokenizer: PathBuf,
}

impl ModelFiles {
    pub(super) fn find(directory: &Path) -> Result<Self, ModelError> {
        let names = std::fs::read_dir(directory).map_err(|error| ModelError::new(directory, error))?;
        let mut names: Vec<String> = names.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        let weights = |name: &str| name.ends_with(".safetensors");
        let tokenizer = |name: &str| name.contains("tokenizer") && name.ends_with(".json");
        Ok(Self {
            weights: only(directory, &names, "model.safetensors", weights)?,
            tokenizer: only(directory, &names, "tokenizer.json", tokenizer)?,
        })
    }
}

/// The file with the usual name, or else the only one that may be meant.
fn only(directory: &Path, names: &[String], usual: &str, fits: impl Fn(&str) -> bool) -> Result<PathBuf, ModelError> {
    if names.iter().any(|name| name == usual) {
        return Ok(directory.join(usual));
    }
    let candidates: Vec<&String> = names.iter().filter(|name| fits(name)).collect();
    match candidates.as_slice() {
        [one] => Ok(directory.join(one)),
        [] => Err(ModelError::new(directory, format!("there is no {usual}"))),
        _ => Err(ModelError::new(directory, format!("there is no {usual}, and several files could be meant"))),
    }
}
