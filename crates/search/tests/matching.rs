//! What a query finds.

use tidings_search::{IndexChange, SearchIndex, ToolDocument};

fn tool(server: &str, name: &str, description: &str) -> IndexChange {
    let raw = format!(
        r#"{{"name":"{name}","description":"{description}","inputSchema":{{"type":"object","properties":{{
            "page_size":{{"type":"integer","description":"How many at most"}}}}}}}}"#
    );
    IndexChange::Put(ToolDocument::from_tool(server, &format!("{server}__{name}"), raw.as_bytes()))
}

fn office() -> SearchIndex {
    let index = SearchIndex::new();
    index.apply(&[
        tool("mail", "send_message", "Delivers a letter to recipients"),
        tool("mail", "listMessages", "Inbox overview"),
        tool("mail", "delete-message", "Moves a letter to the bin"),
        tool("hub", "create_repository", "Starts a project on the forge"),
        tool("hub", "create_pull_request", "Proposes a branch for merging"),
        tool("hub", "list", "Everything there is"),
        tool("plan", "calendar.create_event", "Puts an entry into the diary"),
        tool("plan", "configuration_view", "Current settings"),
    ]);
    index
}

fn first(index: &SearchIndex, query: &str) -> Option<String> {
    index.search(query, 5).into_iter().next().map(|hit| hit.name)
}

#[track_caller]
fn finds(query: &str, expected: &str) {
    assert_eq!(first(&office(), query).as_deref(), Some(expected), "{query}");
}

// S3.8
#[test]
fn spelling_of_names_does_not_matter() {
    for query in ["list messages", "list_messages", "listMessages", "LIST-MESSAGES", "messages.list"] {
        finds(query, "mail__listMessages");
    }
}

// S3.8
#[test]
fn word_forms_do_not_matter() {
    finds("creating repositories", "hub__create_repository");
    finds("deleted messages", "mail__delete-message");
}

// S3.8
#[test]
fn the_beginning_of_a_word_is_enough() {
    finds("config", "plan__configuration_view");
    finds("cal", "plan__calendar.create_event");
}

// S3.8
#[test]
fn small_typos_do_not_matter() {
    finds("repositry", "hub__create_repository");
    finds("calander", "plan__calendar.create_event");
    finds("recipeints", "mail__send_message");
    finds("inbx", "mail__listMessages");
}

// S3.8
#[test]
fn short_words_are_taken_as_they_are() {
    assert!(office().search("bim", 5).is_empty());
    assert!(office().search("vetter", 5).is_empty(), "another beginning, another word");
    assert_eq!(first(&office(), "bin").as_deref(), Some("mail__delete-message"));
}

// S3.8
#[test]
fn synonyms_find_but_count_less_than_the_word_itself() {
    finds("remove a mail", "mail__delete-message");
    finds("open a PR", "hub__create_pull_request");
    let index = office();
    index.apply(&[tool("other", "remove_message", "")]);
    assert_eq!(first(&index, "remove message").as_deref(), Some("other__remove_message"));
    assert_eq!(first(&index, "delete message").as_deref(), Some("mail__delete-message"));
}

// S3.8
#[test]
fn words_that_occur_nowhere_do_not_spoil_the_rest() {
    let plain: Vec<_> = office().search("delete letter", 5);
    let noisy: Vec<_> = office().search("zzyzx delete qwrtp letter", 5);
    assert_eq!(plain, noisy);
    assert!(office().search("zzyzx qwrtp", 5).is_empty());
}

// S3.8
#[test]
fn stop_words_do_not_count() {
    assert_eq!(office().search("the settings", 5), office().search("settings", 5));
    assert!(office().search("", 5).is_empty());
    assert!(office().search("of the", 5).is_empty());
}

// S3.8
#[test]
fn a_full_name_comes_first() {
    finds("list", "hub__list");
    finds("hub list", "hub__list");
    finds("hub__list", "hub__list");
    finds("calendar create event", "plan__calendar.create_event");
}

#[test]
fn the_public_name_wins_over_the_same_words_elsewhere() {
    let index = SearchIndex::new();
    index.apply(&[tool("a", "b__c", "a b c"), tool("a__b", "c", "a b c"), tool("a", "b_c", "")]);
    assert_eq!(first(&index, "a__b_c").as_deref(), Some("a__b_c"));
}

#[test]
fn parameters_and_servers_are_searched() {
    assert_eq!(office().search("page size", 20).len(), 8);
    assert!(office().search("plan", 5).iter().any(|hit| hit.server == "plan"));
}

#[test]
fn equals_are_ordered_by_name_and_the_limit_holds() {
    let index = SearchIndex::new();
    index.apply(&[tool("c", "ping", ""), tool("a", "ping", ""), tool("b", "ping", "")]);
    let names: Vec<String> = index.search("ping", 2).into_iter().map(|hit| hit.name).collect();
    assert_eq!(names, ["a__ping", "b__ping"]);
    assert!(index.search("ping", 0).is_empty());
}

#[test]
fn a_very_long_query_is_answered() {
    let query = "message ".repeat(10_000);
    assert!(!office().search(&query, 5).is_empty());
}
