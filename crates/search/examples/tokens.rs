//! Prints the tokens of each line of the standard input as the tokenizer of a model cuts it:
//! `cargo run -p tidings-search --example tokens -- DIR`. `conformance/tokens.py` compares them with those of the PyPI package `tokenizers`.

use std::io::BufRead as _;
use std::path::Path;

use tidings_search::StaticModel;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args().nth(1).ok_or("which directory has the model?")?;
    let model = StaticModel::open(Path::new(&directory))?;
    for line in std::io::stdin().lock().lines() {
        // One line of JSON per text, so that texts may have line breaks.
        let text: String = serde_json::from_str(&line?)?;
        println!("{}", serde_json::to_string(&model.tokens(&text))?);
    }
    Ok(())
}
