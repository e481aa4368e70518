//! Prints the vector of each line of the standard input as a transformer gives it:
//! `cargo run -p tidings-search --example vectors -- DIR`. `conformance/vectors.py` compares them with those that the correction
//! was made with.

use std::io::BufRead as _;
use std::path::Path;

use tidings_search::SearchModel;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args().nth(1).ok_or("which directory has the model?")?;
    let SearchModel::Encoder(model) = SearchModel::open(Path::new(&directory))? else {
        return Err("a static model has no layers".into());
    };
    for line in std::io::stdin().lock().lines() {
        // One line of JSON per text, so that texts may have line breaks.
        let text: String = serde_json::from_str(&line?)?;
        println!("{}", serde_json::to_string(&model.embed(&text))?);
    }
    Ok(())
}
