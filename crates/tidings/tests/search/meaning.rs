//! Search by meaning: a model in the process, an endpoint elsewhere, and what a server says of itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use tidings_testkit::{Gateway, Server, ServerBuilder, TempDir, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::outside::api;
use crate::{exposing, found, office, tool};

/// An endpoint of the form that OpenAI has, for texts of two kinds: those about money, and others.
struct StandIn {
    url: String,
    requests: Arc<AtomicUsize>,
    texts: Arc<AtomicUsize>,
    down: Arc<AtomicBool>,
}

impl StandIn {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let (requests, texts, down) = (Arc::default(), Arc::default(), Arc::default());
        let stand_in = Self { url, requests, texts, down };
        let (requests, texts, down) =
            (Arc::clone(&stand_in.requests), Arc::clone(&stand_in.texts), Arc::clone(&stand_in.down));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (requests, texts, down) = (Arc::clone(&requests), Arc::clone(&texts), Arc::clone(&down));
                tokio::spawn(async move {
                    let Some((head, body)) = read_request(&mut stream).await else { return };
                    requests.fetch_add(1, Ordering::SeqCst);
                    let right = head.starts_with("POST /v1/embeddings ") && head.contains("Bearer secret-key");
                    let answer = if right && !down.load(Ordering::SeqCst) {
                        assert_eq!(body["model"], "small");
                        let input: Vec<&str> =
                            body["input"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
                        texts.fetch_add(input.len(), Ordering::SeqCst);
                        let data =
                            input.iter().enumerate().map(|(at, text)| json!({"index": at, "embedding": vector(text)}));
                        ("200 OK", json!({"object": "list", "data": data.collect::<Vec<_>>()}))
                    } else {
                        ("503 Service Unavailable", json!({"error": "loading the model"}))
                    };
                    let (status, text) = (answer.0, answer.1.to_string());
                    let answer = format!(
                        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
                        text.len()
                    );
                    let _ = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        stand_in
    }

    fn toml(&self) -> String {
        format!("[search]\nembeddings = {{ url = {:?}, model = \"small\", key = \"secret-key\" }}", self.url)
    }
}

fn vector(text: &str) -> Vec<f32> {
    let about = |words: &[&str]| words.iter().any(|word| text.to_lowercase().contains(word));
    if about(&["bill", "invoice", "geld", "ausgaben"]) { vec![1.0, 0.0, 0.1] } else { vec![0.0, 1.0, 0.1] }
}

async fn read_request(stream: &mut tokio::net::TcpStream) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    loop {
        let mut part = [0; 4096];
        let length = stream.read(&mut part).await.ok().filter(|length| *length > 0)?;
        bytes.extend_from_slice(&part[..length]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_owned();
        let wanted = head.to_lowercase();
        let wanted =
            wanted.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse::<usize>().ok())?;
        if body.len() >= wanted {
            return Some((head.replace("bearer", "Bearer"), serde_json::from_str(body).ok()?));
        }
    }
}

async fn described(gateway: &Gateway) -> Value {
    api(gateway, "search").await.1
}

// issue 19
#[tokio::test]
async fn an_endpoint_gives_meaning_in_batches_and_is_asked_for_each_text_once() {
    let stand_in = StandIn::start().await;
    let server = office().stdio().await;
    let gateway = exposing("search").toml(&stand_in.toml()).server("office", &server).serve().await;
    let client = gateway.client().connect().await;
    within("vectors", async {
        while described(&gateway).await["by_meaning"].as_u64() < Some(4) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    // No word of the question is in the description, nor is it in its language.
    assert_eq!(found(&client, "Ausgaben an Geld").await[0], "createInvoice");
    let status = api(&gateway, "status").await.1;
    assert_eq!(status["search"]["endpoint"]["state"], "up", "{status}");
    assert!(!status.to_string().contains("secret-key"));
    let texts = stand_in.texts.load(Ordering::SeqCst);
    assert_eq!(found(&client, "Ausgaben an Geld").await[0], "createInvoice");
    assert_eq!(stand_in.texts.load(Ordering::SeqCst), texts, "a question is sent once");
    let mut tools: Vec<_> =
        ["send_message", "createInvoice"].iter().map(|name| tool(name, "Something else.")).collect();
    tools.push(tool("new_one", "Something new."));
    server.set_tools(tools);
    server.list_changed("tools");
    within("the vectors of what changed", async {
        while stand_in.texts.load(Ordering::SeqCst) < texts + 3 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(stand_in.texts.load(Ordering::SeqCst), texts + 3, "only what changed is sent");
    assert!(stand_in.requests.load(Ordering::SeqCst) <= 6, "in batches");
}

// issue 19
#[tokio::test]
async fn an_endpoint_that_is_down_costs_nothing_but_meaning_and_status_says_so() {
    let stand_in = StandIn::start().await;
    stand_in.down.store(true, Ordering::SeqCst);
    let server = office().stdio().await;
    let gateway = exposing("search").toml(&stand_in.toml()).server("office", &server).serve().await;
    let client = gateway.client().connect().await;
    assert_eq!(found(&client, "book a room").await[0], "book_room", "words decide");
    within("the state", async {
        while described(&gateway).await["endpoint"]["state"] != "down" {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    let status = api(&gateway, "status").await.1;
    let problem = status["search"]["endpoint"]["problem"].as_str().unwrap().to_owned();
    assert!(problem.contains("503") && problem.contains("loading the model"), "{problem}");
    stand_in.down.store(false, Ordering::SeqCst);
    within("vectors", async {
        while described(&gateway).await["by_meaning"].as_u64() < Some(4) {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(described(&gateway).await["endpoint"]["state"], "up");
}

/// A model with two directions, as Model2Vec writes it.
fn model(directory: &TempDir) -> String {
    let rows: [[f32; 2]; 4] = [[0.0, 0.0], [1.0, 0.0], [0.9, 0.1], [0.0, 1.0]];
    let data: Vec<u8> = rows.iter().flatten().flat_map(|number| number.to_le_bytes()).collect();
    let header = json!({"embeddings": {"dtype": "F32", "shape": [4, 2], "data_offsets": [0, data.len()]}}).to_string();
    let mut weights = (header.len() as u64).to_le_bytes().to_vec();
    weights.extend(header.as_bytes());
    weights.extend(data);
    directory.write("model.safetensors", weights);
    let vocabulary = json!({"[UNK]": 0, "bills": 1, "expenditure": 2, "room": 3});
    let tokenizer = json!({"normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": vocabulary}});
    directory.write("tokenizer.json", tokenizer.to_string());
    directory.join("").display().to_string()
}

// issue 19
#[tokio::test]
async fn a_model_finds_what_shares_no_word_and_says_what_it_is() {
    let directory = TempDir::new();
    let model = model(&directory);
    let server = office().stdio().await;
    let toml = format!("[search]\nmodel = {model:?}");
    let gateway = exposing("search").toml(&toml).server("office", &server).serve().await;
    let client = gateway.client().connect().await;
    assert_eq!(found(&client, "expenditure").await, ["createInvoice"]);
    let plain = exposing("search").server("office", &server).serve().await;
    assert!(found(&plain.client().connect().await, "expenditure").await.is_empty(), "by words alone it is not found");
    let data = gateway.data().to_str().unwrap().to_owned();
    let said = tidings(&["search", "model", "--data", &data]).await;
    assert!(said.contains("4 tokens of 2 numbers, WordPiece tokenizer"), "{said}");
    let said = tidings(&["search", "model", "--data", plain.data().to_str().unwrap()]).await;
    assert!(said.contains("by words alone") && said.contains("pip download wordllama"), "{said}");
}

async fn tidings(arguments: &[&str]) -> String {
    let mut command = tokio::process::Command::new(tidings_testkit::tidings());
    let output = within("tidings", command.args(arguments).output()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

// issue 19
#[tokio::test]
async fn what_a_server_says_of_itself_is_searched() {
    let server = |name: &str, about: &str| -> ServerBuilder {
        Server::builder(name).entry_tool(tool("list", "Lists all items.")).instructions(about)
    };
    let one = server("one", "The warehouse of a bicycle shop.").stdio().await;
    let two = server("two", "The library of a university.").http().await;
    let gateway = exposing("search").server("one", &one).server("two", &two).serve().await;
    let client = gateway.client().connect().await;
    assert_eq!(found(&client, "list the items of the library").await[0], "two__list");
    assert_eq!(found(&client, "list the items of the bicycle shop").await[0], "one__list");
}
