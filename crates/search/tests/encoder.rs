//! Small transformers: which files are read, which are refused, and what search makes of them.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};
use tidings_search::{
    IndexChange, MeaningSource, MeaningText, Question, RemoteVectors, SearchIndex, SearchModel, TextEncoder,
    ToolDocument,
};
use tidings_testkit::TempDir;

const WIDTH: usize = 4;

/// The tensors of a model with one layer that adds nothing, so that a text means the average of its words.
struct TinyModel {
    tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    tokenizer: Value,
    config: Value,
}

impl TinyModel {
    fn new() -> Self {
        let words = ["[UNK]", "[CLS]", "[SEP]", "letter", "post", "file", "document"];
        let (mail, paper) = ([3.0, -1.0, -1.0, -1.0], [-1.0, 3.0, -1.0, -1.0]);
        // Marks mean nothing by themselves.
        let rows = [[0.0; WIDTH], [0.0; WIDTH], [0.0; WIDTH], mail, mail, paper, paper];
        let vocabulary: serde_json::Map<String, Value> =
            words.iter().enumerate().map(|(at, word)| ((*word).to_owned(), json!(at))).collect();
        let mut tiny = Self {
            tensors: BTreeMap::new(),
            tokenizer: json!({
                "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
                "pre_tokenizer": {"type": "BertPreTokenizer"},
                "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "vocab": vocabulary}
            }),
            config: json!({"num_attention_heads": 2, "hidden_act": "gelu"}),
        };
        tiny.put("embeddings.word_embeddings.weight", &[rows.len(), WIDTH], rows.concat());
        tiny.put("embeddings.position_embeddings.weight", &[6, WIDTH], vec![0.0; 6 * WIDTH]);
        tiny.put("embeddings.token_type_embeddings.weight", &[2, WIDTH], vec![0.0; 2 * WIDTH]);
        tiny.norm("embeddings.LayerNorm");
        for part in ["query", "key", "value"] {
            tiny.linear(&format!("attention.self.{part}"), WIDTH, WIDTH);
        }
        tiny.linear("attention.output.dense", WIDTH, WIDTH);
        tiny.norm("encoder.layer.0.attention.output.LayerNorm");
        tiny.linear("intermediate.dense", 2 * WIDTH, WIDTH);
        tiny.linear("output.dense", WIDTH, 2 * WIDTH);
        tiny.norm("encoder.layer.0.output.LayerNorm");
        tiny
    }

    fn put(&mut self, name: &str, shape: &[usize], numbers: Vec<f32>) {
        self.tensors.insert(name.to_owned(), (shape.to_vec(), numbers));
    }

    fn norm(&mut self, name: &str) {
        self.put(&format!("{name}.weight"), &[WIDTH], vec![1.0; WIDTH]);
        self.put(&format!("{name}.bias"), &[WIDTH], vec![0.0; WIDTH]);
    }

    fn linear(&mut self, part: &str, outputs: usize, inputs: usize) {
        let name = format!("encoder.layer.0.{part}");
        self.put(&format!("{name}.weight"), &[outputs, inputs], vec![0.0; outputs * inputs]);
        self.put(&format!("{name}.bias"), &[outputs], vec![0.0; outputs]);
    }

    fn open(&self) -> Result<SearchModel, String> {
        let directory = TempDir::new();
        let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
        for (name, (shape, numbers)) in &self.tensors {
            let start = data.len();
            data.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            header.insert(name.clone(), json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]}));
        }
        let header = Value::Object(header).to_string();
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.extend(data);
        std::fs::write(directory.join("model.safetensors"), file).expect("written");
        std::fs::write(directory.join("tokenizer.json"), self.tokenizer.to_string()).expect("written");
        std::fs::write(directory.join("config.json"), self.config.to_string()).expect("written");
        SearchModel::open(&directory.join("")).map_err(|error| error.to_string())
    }

    fn encoder(&self) -> TextEncoder {
        match self.open() {
            Ok(SearchModel::Encoder(encoder)) => encoder,
            other => panic!("{other:?} is no transformer"),
        }
    }
}

fn near(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

// issue 19
#[test]
fn a_transformer_is_known_by_its_tensors_and_gives_vectors_of_length_one() {
    let encoder = TinyModel::new().encoder();
    let facts = encoder.facts();
    assert_eq!((facts.tokens, facts.dimensions, facts.layers, facts.tokenizer), (7, WIDTH, 1, "WordPiece"));
    assert!(!facts.corrected, "the correction is for another model");
    let of = |text: &str| encoder.embed(text).expect("known words");
    let letter = of("Letter");
    assert!((near(&letter, &letter) - 1.0).abs() < 1e-4);
    assert!(near(&letter, &of("post")) > 0.99 && near(&letter, &of("file")) < 0.5);
    assert_eq!(encoder.embed("zzz"), None, "a text without a known word means nothing");
    // There are six places; what comes after them is left out.
    assert!(near(&of(&"letter ".repeat(500)), &letter) > 0.9);
}

#[test]
fn the_layers_are_applied() {
    let mut tiny = TinyModel::new();
    // Every token becomes the same, whatever it was.
    tiny.put("encoder.layer.0.output.dense.bias", &[WIDTH], vec![1e6, -1e6, 1e6, -1e6]);
    let encoder = tiny.encoder();
    let of = |text: &str| encoder.embed(text).expect("known words");
    assert!(near(&of("letter"), &of("file")) > 0.999);
    // The mark at the beginning means nothing by itself; what it takes from the other tokens does.
    let mut tiny = TinyModel::new();
    let identity: Vec<f32> = (0..WIDTH * WIDTH).map(|at| f32::from(u8::from(at % (WIDTH + 1) == 0))).collect();
    tiny.put("encoder.layer.0.attention.self.value.weight", &[WIDTH, WIDTH], identity.clone());
    tiny.put("encoder.layer.0.attention.output.dense.weight", &[WIDTH, WIDTH], identity);
    tiny.config["pooling_mode_cls_token"] = true.into();
    let encoder = tiny.encoder();
    let of = |text: &str| encoder.embed(text).expect("known words");
    assert!(near(&of("letter"), &of("post")) > 0.99 && near(&of("letter"), &of("file")) < 0.5);
}

#[test]
fn the_first_mark_stands_for_the_text_where_the_model_says_so() {
    let mut tiny = TinyModel::new();
    tiny.put("encoder.layer.0.output.LayerNorm.bias", &[WIDTH], vec![1.0, 0.0, 0.0, 0.0]);
    let far = |encoder: &TextEncoder| {
        let of = |text: &str| encoder.embed(text).expect("known words");
        near(&of("letter"), &of("file"))
    };
    assert!(far(&tiny.encoder()) < 0.9, "all tokens stand for the text");
    tiny.config["pooling_mode_cls_token"] = true.into();
    assert!(far(&tiny.encoder()) > 0.999, "layers that add nothing leave the mark as it is");
}

#[test]
fn a_transformer_that_can_not_be_used_is_refused_with_the_reason() {
    let refused = |change: &dyn Fn(&mut TinyModel)| {
        let mut tiny = TinyModel::new();
        change(&mut tiny);
        tiny.open().expect_err("refused")
    };
    let missing = refused(&|tiny| drop(tiny.tensors.remove("encoder.layer.0.output.dense.bias")));
    assert!(missing.contains("model.safetensors") && missing.contains("no `encoder.layer.0.output.dense.bias`"));
    let odd = refused(&|tiny| tiny.put("encoder.layer.0.intermediate.dense.weight", &[WIDTH, 3], vec![0.0; WIDTH * 3]));
    assert!(odd.contains("does not take 4 numbers"), "{odd}");
    let empty = refused(&|tiny| {
        tiny.put("encoder.layer.0.intermediate.dense.weight", &[0, WIDTH], Vec::new());
        tiny.put("encoder.layer.0.intermediate.dense.bias", &[0], Vec::new());
    });
    assert!(empty.contains("intermediate.dense.weight` gives no numbers"), "{empty}");
    let heads = refused(&|tiny| tiny.config["num_attention_heads"] = 3.into());
    assert!(heads.contains("4 numbers can not be divided among 3 heads"), "{heads}");
    let other = refused(&|tiny| tiny.config["hidden_act"] = "silu".into());
    assert!(other.contains("silu"), "{other}");
    let marks =
        refused(&|tiny| drop(tiny.tokenizer["model"]["vocab"].as_object_mut().expect("tokens").remove("[CLS]")));
    assert!(marks.contains("tokenizer.json") && marks.contains("[CLS]"), "{marks}");
    let layers = refused(&|tiny| tiny.tensors.retain(|name, _| !name.starts_with("encoder.")));
    assert!(layers.contains("no layers"), "{layers}");
}

/// A transformer that is asked at once.
#[derive(Debug)]
struct AtOnce(TextEncoder);

impl RemoteVectors for AtOnce {
    fn reads(&self) -> MeaningText {
        MeaningText::FirstSentence
    }

    fn wanted(&self) {}

    fn question(&self, text: String) -> Pin<Box<dyn Future<Output = Option<Vec<f32>>> + Send + '_>> {
        Box::pin(std::future::ready(self.0.embed(&text)))
    }
}

#[test]
fn tools_are_found_by_what_the_first_sentence_means_and_wait_once() {
    let encoder = TinyModel::new().encoder();
    let question = encoder.embed("letter");
    let index = SearchIndex::with_meaning(MeaningSource::Remote(Arc::new(AtOnce(encoder))));
    let tool = |name: &str, description: &str| {
        let raw = json!({"name": name, "description": description}).to_string();
        IndexChange::Put(ToolDocument::from_tool("office", name, raw.as_bytes()))
    };
    index.apply(&[tool("alpha", "post. file file file file"), tool("beta", "file"), tool("gamma", "nothing")]);
    let model = TinyModel::new().encoder();
    let asked = Question { vector: question, ..Question::of_words("letter") };
    let wanted = index.wanted_texts(10);
    let first = wanted.iter().find(|text| text.0.contains("beta")).expect("all wait");
    index.place(first, &[1.0, 0.0, 0.0, 0.0]);
    assert_eq!(index.answer(&asked, 5), [], "most tools wait, so words decide");
    for text in index.wanted_texts(10) {
        index.place(&text, &model.embed(&text.0).unwrap_or_default());
    }
    let count = index.count();
    assert_eq!((count.vectors, count.waiting), (2, 0), "a text without a vector is not asked for again");
    let hits = index.answer(&asked, 5);
    assert_eq!(hits.first().map(|hit| hit.name.as_str()), Some("alpha"), "{hits:?}");
    assert!(hits.iter().all(|hit| hit.name != "gamma"));
}
