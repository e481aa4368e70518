//! The relevance benchmark as a test.

#[path = "../relevance/harness.rs"]
mod harness;

// S3.8
#[test]
fn phrases_find_their_tools_among_the_first_five() {
    let documents = harness::documents();
    let queries = harness::queries();
    assert!(documents.len() >= 300 && queries.len() >= 100);
    let quality = harness::measure(&harness::index(&documents), queries.iter());
    assert!(quality.recall_at_5 >= 0.9, "recall@5 is {:.3}", quality.recall_at_5);
    assert!(quality.reciprocal_rank >= 0.75, "MRR is {:.3}", quality.reciprocal_rank);
    assert!(quality.first >= 0.65, "recall@1 is {:.3}", quality.first);
}

#[test]
fn every_query_names_tools_that_exist() {
    let names: std::collections::BTreeSet<String> = harness::documents().into_iter().map(|d| d.id.name).collect();
    for query in harness::queries() {
        assert!(harness::SETS.contains(&query.set.as_str()), "{}", query.text);
        assert!((1..=3).contains(&query.relevant.len()), "{}", query.text);
        assert!(query.relevant.is_subset(&names), "{}", query.text);
    }
}
