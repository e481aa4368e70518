//! Files that are refused, and the words they are refused with.

use super::{faults, parse};

/// Blocks of a file and, after `=> `, the fault that it is refused with; the fault names the file.
const TABLE: &str = include_str!("../data/refused.txt");

#[test]
fn each_bad_file_is_refused_with_place_key_expectation_and_remedy() {
    let mut wrong = Vec::new();
    let mut text = String::new();
    let mut count = 0;
    for line in TABLE.lines().skip_while(|line| line.is_empty()) {
        let Some(expected) = line.strip_prefix("=> ") else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let text = std::mem::take(&mut text);
        let (text, name) = (text.trim_start(), expected.split(':').next().unwrap_or_default());
        let found = parse(name, text).map_or_else(|_| faults(name, text), |_| "accepted".to_owned());
        if found != expected {
            wrong.push(format!("--- {text}\nexpected: {expected}\nfound:    {found}"));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 50, "{count}");
}

#[test]
fn all_faults_are_reported_at_once_in_the_order_of_the_file() {
    let text =
        "[gateway]\nviw = 1\ntimeout = \"x\"\n[servers.b]\nurl = \"${env:A}\"\nargs = []\n[servers.a]\n[wach.x]\n";
    let found = faults("tidings.toml", text);
    let lines: Vec<_> = found.lines().map(|line| line.split(' ').nth(1).unwrap_or_default()).collect();
    assert_eq!(
        lines,
        ["gateway.viw:", "gateway.timeout:", "servers.b.url:", "servers.b.args:", "servers.a:", "wach:"],
        "{found}"
    );
}

#[test]
fn every_syntax_error_has_its_line_and_repeats_no_text_of_the_file() {
    let found = faults("tidings.toml", "[servers.a]\nenv = { TOKEN = hunter2 }\ncommand = \n");
    assert!(found.lines().count() >= 2, "{found}");
    assert!(found.starts_with("tidings.toml:2:") && found.contains("tidings.toml:3:"), "{found}");
    assert!(!found.contains("hunter2"), "{found}");
}

#[test]
fn a_file_that_does_not_exist_is_an_error_with_a_remedy() {
    let error = tidings_config::load("/nowhere/tidings.toml".as_ref(), &|_| None).unwrap_err();
    assert_eq!(error.to_string(), "/nowhere/tidings.toml: there is no such file; `tidings init` makes one");
}
