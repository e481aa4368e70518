//! Static embedding models: the files that Model2Vec and WordLlama publish, and what search makes of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tidings_search::{IndexChange, MeaningSource, SearchIndex, StaticModel, ToolDocument};
use tidings_testkit::TempDir;

/// Writes a safetensors file with one table of 32-bit numbers.
fn write_weights(path: &Path, name: &str, rows: &[[f32; 2]]) {
    let data: Vec<u8> = rows.iter().flatten().flat_map(|number| number.to_le_bytes()).collect();
    let header =
        json!({ name: { "dtype": "F32", "shape": [rows.len(), 2], "data_offsets": [0, data.len()] } }).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    std::fs::write(path, file).expect("written");
}

fn model_of(directory: &TempDir, tokenizer: &Value, rows: &[[f32; 2]]) -> Result<StaticModel, String> {
    write_weights(&directory.join("model.safetensors"), "embeddings", rows);
    std::fs::write(directory.join("tokenizer.json"), tokenizer.to_string()).expect("written");
    StaticModel::open(&directory.join("")).map_err(|error| error.to_string())
}

/// Two directions: to the right what has to do with mail, upwards what has to do with files.
fn wordpiece() -> (Value, Vec<[f32; 2]>) {
    let vocabulary = json!({"[UNK]": 0, "letter": 1, "post": 2, "##card": 3, "file": 4, "document": 5, "send": 6, ".": 7, "uber": 8});
    let tokenizer = json!({
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocabulary}
    });
    let rows = vec![
        [0.0, 0.0],
        [1.0, 0.0],
        [0.9, 0.1],
        [0.9, 0.1],
        [0.0, 1.0],
        [0.1, 0.9],
        [0.7, 0.1],
        [0.0, 0.0],
        [0.5, 0.5],
    ];
    (tokenizer, rows)
}

#[test]
fn a_model_of_model2vec_with_word_pieces_is_read() {
    let directory = TempDir::new();
    let (tokenizer, rows) = wordpiece();
    let model = model_of(&directory, &tokenizer, &rows).expect("a model");
    assert_eq!(model.tokens("Send a POSTCARD."), [6, 2, 3, 7], "`a` is not known");
    assert_eq!(model.tokens("Über files"), [8], "accents go, and what is not known to its end gives nothing");
    let facts = model.facts();
    assert_eq!((facts.tokens, facts.dimensions, facts.tokenizer), (9, 2, "WordPiece"));
    let vector = model.embed("letter").expect("known");
    assert!((vector[0] - 1.0).abs() < 0.01 && vector[1].abs() < 0.01, "{vector:?}");
    assert_eq!(model.embed("zzz"), None);
}

#[test]
fn a_model_with_a_unigram_tokenizer_is_read() {
    let directory = TempDir::new();
    let tokenizer = json!({
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Precompiled", "precompiled_charsmap": ""}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
        "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false, "vocab": [["<unk>", 0.0], ["▁let", -3.0], ["ter", -3.5], ["▁letter", -5.0], ["▁", -4.0], ["l", -8.0], ["s", -4.5]]}
    });
    let model = model_of(&directory, &tokenizer, &[[1.0, 0.0]; 7]).expect("a model");
    assert_eq!(model.tokens("letters  let"), [3, 6, 1], "the likeliest cut, not the longest token");
    assert_eq!(model.tokens("ﬁ"), [4], "letters that are not known give nothing");
    assert_eq!(model.facts().approximations.len(), 1, "and what is followed only nearly is said");
}

#[test]
fn a_model_of_wordllama_with_byte_pairs_is_read() {
    let directory = TempDir::new();
    let mut vocabulary = json!({"<unk>": 0, "▁": 1, "l": 2, "e": 3, "t": 4, "le": 5, "▁le": 6, "tt": 7, "▁lett": 8});
    for byte in 0..=255_u8 {
        vocabulary[format!("<0x{byte:02X}>")] = json!(9 + u32::from(byte));
    }
    let tokenizer = json!({
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": null,
        "model": {"type": "BPE", "byte_fallback": true, "unk_token": "<unk>", "vocab": vocabulary, "merges": ["l e", "t t", "▁ le", ["▁le", "tt"]]}
    });
    write_weights(&directory.join("l2_supercat_256.safetensors"), "embedding.weight", &[[1.0, 0.0]; 265]);
    std::fs::write(directory.join("l2_supercat_tokenizer_config.json"), tokenizer.to_string()).expect("written");
    let model = StaticModel::open(&directory.join("")).expect("the only files that can be meant");
    assert_eq!(model.tokens("lett le"), [8, 6]);
    assert_eq!(model.tokens("é"), [1, 9 + 0xc3, 9 + 0xa9], "a letter that is not known is cut into bytes");
}

#[test]
fn what_can_not_be_used_is_refused_with_the_file_and_the_reason() {
    let directory = TempDir::new();
    let (mut tokenizer, rows) = wordpiece();
    let refused = |tokenizer: &Value| model_of(&directory, tokenizer, &rows).expect_err("refused");
    tokenizer["pre_tokenizer"] = json!({"type": "ByteLevel"});
    let reason = refused(&tokenizer);
    assert!(reason.contains("tokenizer.json") && reason.contains("ByteLevel is not known"), "{reason}");
    tokenizer["pre_tokenizer"] = Value::Null;
    tokenizer["model"]["type"] = "WordLevel".into();
    assert!(refused(&tokenizer).contains("WordLevel"));
    let weights: PathBuf = directory.join("model.safetensors");
    let whole = std::fs::read(&weights).expect("weights");
    for (bytes, reason) in
        [(&whole[..whole.len() - 4], "cut off"), (b"PK\x03\x04rubbish of a zip", "no safetensors file")]
    {
        std::fs::write(&weights, bytes).expect("written");
        let (tokenizer, _) = wordpiece();
        std::fs::write(directory.join("tokenizer.json"), tokenizer.to_string()).expect("written");
        let error = StaticModel::open(&directory.join("")).expect_err("refused").to_string();
        assert!(error.contains("model.safetensors") && error.contains(reason), "{error}");
    }
}

fn tool(name: &str, description: &str) -> ToolDocument {
    let raw = json!({ "name": name, "description": description }).to_string();
    ToolDocument::from_tool("office", &format!("office__{name}"), raw.as_bytes())
}

fn names(index: &SearchIndex, query: &str) -> Vec<String> {
    index.search(query, 5).into_iter().map(|hit| hit.name).collect()
}

// issue 19
#[test]
fn a_tool_is_found_by_meaning_where_no_word_is_shared() {
    let directory = TempDir::new();
    let (tokenizer, rows) = wordpiece();
    let model = Arc::new(model_of(&directory, &tokenizer, &rows).expect("a model"));
    let tools = [tool("dispatch", "Send a letter."), tool("archive", "Keep a document.")];
    let changes: Vec<IndexChange> = tools.iter().cloned().map(IndexChange::Put).collect();
    let (words, meaning) = (SearchIndex::new(), SearchIndex::with_meaning(MeaningSource::Model(model)));
    words.apply(&changes);
    meaning.apply(&changes);
    assert_eq!(names(&words, "postcard"), Vec::<String>::new());
    assert_eq!(names(&meaning, "postcard")[0], "office__dispatch");
    assert_eq!(names(&meaning, "office__archive")[0], "office__archive", "a full name comes first all the same");
    assert_eq!(meaning.count().vectors, 2);
    // Differences: what changed says something else, what went is not found.
    meaning.apply(&[
        IndexChange::Put(tool("dispatch", "Keep a file.")),
        IndexChange::Put(tool("carry", "Send a letter.")),
    ]);
    assert_eq!(names(&meaning, "postcard")[0], "office__carry");
    meaning.apply(&[IndexChange::Remove("office__carry".into())]);
    assert!(!names(&meaning, "postcard").contains(&"office__carry".to_owned()));
    let fresh = SearchIndex::with_meaning(meaning_of(&directory));
    fresh.apply(&[IndexChange::Put(tools[1].clone()), IndexChange::Put(tool("dispatch", "Keep a file."))]);
    for query in ["postcard", "document", "keep a file", "archive"] {
        assert_eq!(meaning.search(query, 5), fresh.search(query, 5), "{query}");
    }
}

fn meaning_of(directory: &TempDir) -> MeaningSource {
    MeaningSource::Model(Arc::new(StaticModel::open(&directory.join("")).expect("a model")))
}
