//! `GET /api/v1/changes`.

use serde_json::{Value, json};

use crate::{Feed, add, answer, full, get, quick, request, token};

fn seqs(body: &Value) -> Vec<u64> {
    body["changes"].as_array().unwrap().iter().map(|record| record["seq"].as_u64().unwrap()).collect()
}

// S4.4
#[tokio::test]
async fn any_part_of_the_feed_can_be_had() {
    let server = full().stdio().await;
    let gateway = quick().server("one", &server).serve().await;
    assert_eq!(get(&gateway, "/changes").await, (200, json!({"changes": [], "last": 0})));
    let mut feed = Feed::all(&gateway).await;
    let mut times = Vec::new();
    for round in 0..5 {
        add(&server, &format!("t{round}"));
        times.push(feed.next().await["time"].as_str().unwrap().to_owned());
    }
    for (query, expected) in [
        ("", vec![1, 2, 3, 4, 5]),
        ("?since=0", vec![1, 2, 3, 4, 5]),
        ("?since=3", vec![4, 5]),
        ("?since=5", vec![]),
        ("?since=99", vec![]),
        ("?since=1&limit=2", vec![2, 3]),
        ("?limit=2", vec![4, 5]),
        ("?since=1h", vec![1, 2, 3, 4, 5]),
        ("?since=2020-01-01T00:00:00Z", vec![1, 2, 3, 4, 5]),
        ("?since=2999-01-01T00:00:00Z", vec![]),
        (&format!("?since={}", times[2]), vec![3, 4, 5]),
        (&format!("?since={}", times[2].replace('Z', "%2B00:00")), vec![3, 4, 5]),
    ] {
        let (status, body) = get(&gateway, &format!("/changes{query}")).await;
        assert_eq!((status, seqs(&body), &body["last"]), (200, expected, &json!(5)), "{query}");
    }
}

// S4.4
#[tokio::test]
async fn wrong_questions_are_refused_with_a_remedy() {
    let gateway = quick().serve().await;
    for (path, parameter, remedy) in [
        ("/changes?since=yesterday", "since:", "1h30m"),
        ("/changes?since=", "since:", "1h30m"),
        ("/changes?limit=0", "limit:", "1 to 10000"),
        ("/changes?limit=many", "limit:", "1 to 10000"),
        ("/changes/stream?since=-5", "since:", "1h30m"),
    ] {
        let response = request(&gateway, path).send().await.unwrap();
        assert_eq!(response.status(), 400, "{path}");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        let problem: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.starts_with(parameter) && detail.contains(remedy), "{detail}");
        assert_eq!(problem["status"], 400);
    }
    let (status, problem) = answer(request(&gateway, "/changes/stream").header("last-event-id", "abc")).await;
    assert_eq!(status, 400);
    assert!(problem["detail"].as_str().unwrap().starts_with("Last-Event-ID:"), "{problem}");
}

#[tokio::test]
async fn the_feed_needs_the_admin_token() {
    let gateway = quick().serve().await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    for path in ["/changes", "/changes/stream"] {
        let url = format!("{}/api/v1{path}", gateway.base_url());
        let wrong = token(&gateway).replace(['0', '1', '2', '3'], "f");
        for request in [client.get(&url), client.get(&url).bearer_auth(wrong)] {
            let (status, problem) = answer(request).await;
            assert_eq!((status, &problem["status"]), (401, &json!(401)));
        }
        let foreign = client.get(&url).bearer_auth(token(&gateway)).header("origin", "https://evil.example");
        assert_eq!(answer(foreign).await.0, 403);
    }
}
