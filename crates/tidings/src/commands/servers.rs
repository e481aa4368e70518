//! `tidings servers`: how the servers are, one line each; `tidings servers NAME`: all that is known about one.

use serde_json::Value;

use super::status::ago;
use super::terminal::{BOLD, CAME, DIM, OTHER, TerminalPaint, WENT, WIDEST_NAME, cut, harmless, plural, wrapped};
use super::tools::tools_of;
use crate::backend::Backend;
use crate::cli::Cli;
use crate::failure::CommandFailure;

/// How alike a name must be to be meant, from 0 to 1.
const ALIKE: f64 = 0.8;

pub(super) async fn run(cli: &Cli, name: Option<&str>, as_json: bool) -> Result<(), CommandFailure> {
    let backend = Backend::open(cli)?;
    let found = match name {
        None => backend.servers().await.map(|all| (all, Vec::new())),
        Some(name) => one(&backend, name).await,
    };
    backend.close().await;
    let (found, tools) = found?;
    if as_json {
        println!("{found:#}");
        return Ok(());
    }
    let paint = TerminalPaint::for_stdout();
    if name.is_some() {
        print!("{}", everything(&found, &tools, paint));
        return Ok(());
    }
    let rows = found["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    if rows.is_empty() {
        eprintln!("There are no servers yet. Add one: tidings add NAME -- COMMAND, or tidings add NAME --url URL");
    }
    for line in lines(rows, paint) {
        println!("{line}");
    }
    Ok(())
}

/// One server as the API describes it, and the names of its tools.
async fn one(backend: &Backend, name: &str) -> Result<(Value, Vec<String>), CommandFailure> {
    let all = backend.servers().await?;
    let rows = all["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    if let Some(row) = rows.iter().find(|row| row["name"] == name) {
        return Ok((row.clone(), tools_of(backend, name).await?));
    }
    let names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    let near = names.iter().map(|known| (strsim::jaro_winkler(name, known), *known));
    let near = near.filter(|(alike, _)| *alike >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0));
    Err(CommandFailure::Failed(match near {
        Some((_, known)) => format!("there is no server \"{name}\". Did you mean {known}? tidings servers {known}"),
        None if names.is_empty() => {
            format!("there is no server \"{name}\", and no other: tidings add {name} -- COMMAND")
        }
        None => {
            format!("there is no server \"{name}\". `tidings servers` lists those that there are: {}", names.join(", "))
        }
    }))
}

/// One line per server: name, state, revision, and what it offers or what is wrong with it. On a terminal no line is
/// longer than the terminal is wide.
fn lines(rows: &[Value], paint: TerminalPaint) -> Vec<String> {
    let text = |row: &Value, key: &str| harmless(row[key].as_str().unwrap_or_default());
    let longest = |key: &str| rows.iter().map(|row| text(row, key).chars().count()).max().unwrap_or(0);
    // On a narrow terminal the name leaves half of the line to the rest.
    let most = paint.width.map_or(WIDEST_NAME, |width| WIDEST_NAME.min(width / 3));
    let (names, states, revisions) = (longest("name").min(most), longest("state"), longest("revision"));
    let line = |row: &Value| {
        let name = match paint.width {
            Some(_) => cut(&text(row, "name"), names),
            None => text(row, "name"),
        };
        let wrong = wrong(row);
        let warned = row["warning"].as_str().map(|warning| format!("{}; {}", counts(row), harmless(warning.trim())));
        let last = wrong.clone().or(warned).unwrap_or_else(|| counts(row));
        // What is wrong needs the room more than a revision that is not known.
        let revision = text(row, "revision");
        let has_column = revisions > 0 && !(wrong.is_some() && revision.is_empty());
        let before = name.chars().count().max(names) + 2 + states + 2 + if has_column { revisions + 2 } else { 0 };
        let last = match paint.width {
            Some(width) => cut(&last, width.saturating_sub(before).max(8)),
            None => cut(&last, usize::MAX),
        };
        let state = text(row, "state");
        let is_well = wrong.is_none() && row["warning"].is_null();
        let state = paint.styled(style(&state, is_well), &format!("{state:states$}"));
        let name = paint.styled(BOLD, &format!("{name:names$}"));
        let revision = if has_column { format!("{revision:revisions$}  ") } else { String::new() };
        let last = if wrong.is_some() { paint.styled(DIM, &last) } else { last };
        format!("{name}  {state}  {revision}{last}").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// A server that is on its way is not broken.
fn style(state: &str, is_well: bool) -> anstyle::Style {
    match state {
        "ready" if is_well => CAME,
        "disabled" => DIM,
        "failing" | "needs login" => WENT,
        _ => OTHER,
    }
}

/// What a server offers, in words.
fn counts(row: &Value) -> String {
    let count = |key: &str, word: &str| (row[key].as_u64().unwrap_or(0), word.to_owned());
    let all = [
        count("tools", "tool"),
        count("resources", "resource"),
        count("resource_templates", "template"),
        count("prompts", "prompt"),
    ];
    let mut there: Vec<String> =
        all.iter().filter(|(count, _)| *count > 0).map(|(count, word)| plural(*count, word)).collect();
    if let Some(held) = row["held"].as_u64().filter(|held| *held > 0) {
        there.push(format!("{held} held: tidings approvals"));
    }
    there.extend(people(row));
    there.extend(row["owner"].as_str().map(|owner| format!("run by {}", harmless(owner))));
    if there.is_empty() && row["state"] == "ready" { "offers nothing".to_owned() } else { there.join(", ") }
}

/// How many people are logged in, where each logs in for themselves.
fn people(row: &Value) -> Option<String> {
    let count = |key: &str| row["people"][key].as_u64();
    let (logged_in, need_login) = (count("logged_in")?, count("need_login")?);
    let people = |count: u64| if count == 1 { "1 person".to_owned() } else { format!("{count} people") };
    Some(match need_login {
        0 => format!("{} logged in", people(logged_in)),
        1 => format!("{} logged in, 1 needs a login", people(logged_in)),
        several => format!("{} logged in, {several} need a login", people(logged_in)),
    })
}

/// What keeps a server from being of use, in one line.
fn wrong(row: &Value) -> Option<String> {
    if let Some(error) = row["error"].as_str() {
        return Some(harmless(error.trim().lines().next().unwrap_or_default()));
    }
    let failed = row["failed_lists"].as_array()?.first()?;
    Some(harmless(&failed_list(failed)))
}

/// A list that a server fails to give, in one line.
fn failed_list(failed: &Value) -> String {
    let text = |key: &str| failed[key].as_str().unwrap_or_default();
    let (list, error) = (text("list"), text("error"));
    // Most errors name the list already.
    let what = if error.contains(list) { error.to_owned() } else { format!("{list}: {error}") };
    format!("{what} (retry in {} s)", failed["retry_in"])
}

/// How far a fact stands from the edge, beside its label.
const BESIDE: usize = 14;

/// Everything that is known about one server.
fn everything(row: &Value, tools: &[String], paint: TerminalPaint) -> String {
    let text = |key: &str| row[key].as_str().map(harmless);
    let state = text("state").unwrap_or_default();
    let from = match row["source"].as_str().unwrap_or_default() {
        "file" => "the configuration file",
        "runtime" if row["added_by"] == "tool" => "a tool that a client called, at run time",
        "runtime" => "`tidings add`, the API or a client, at run time",
        _ => "Tidings itself",
    };
    let since = if row["since"].is_u64() { format!(" for {}", ago(&row["since"])) } else { String::new() };
    let failed: Vec<String> = row["failed_lists"].as_array().into_iter().flatten().map(failed_list).collect();
    let displaced =
        ["displaced_tools", "displaced_resources"].iter().flat_map(|key| row[*key].as_array().into_iter().flatten());
    let displaced: Vec<&str> = displaced.filter_map(Value::as_str).collect();
    let protocol = text("revision").map(|revision| match text("era") {
        Some(era) => format!("{revision} ({era})"),
        None => revision,
    });
    let style = style(&state, text("error").is_none() && text("warning").is_none() && failed.is_empty());
    // The first connection is nothing to tell; more of them are restarts.
    let connects = row["connects"].as_u64().filter(|connects| *connects > 1);
    let facts = [
        ("state", Some(format!("{}{since}", paint.styled(style, &state)))),
        (
            "problem",
            row["error"].as_str().map(|error| error.trim().lines().map(harmless).collect::<Vec<_>>().join("\n")),
        ),
        ("warning", text("warning")),
        ("missing", (!failed.is_empty()).then(|| harmless(&failed.join("\n")))),
        ("from", Some(from.to_owned())),
        ("reached by", text("transport").filter(|transport| transport != "built-in")),
        ("protocol", protocol),
        ("connected", connects.map(|connects| format!("{connects} times since the gateway started"))),
        ("people", people(row)),
        ("offers", Some(counts(row)).filter(|counts| !counts.is_empty())),
        ("tools", (!tools.is_empty()).then(|| harmless(&tools.join(", ")))),
        (
            "displaced",
            (!displaced.is_empty())
                .then(|| format!("{} (the gateway's own; shown with a prefix)", harmless(&displaced.join(", ")))),
        ),
    ];
    let mut out = format!("{}\n", paint.styled(BOLD, &text("name").unwrap_or_default()));
    for (label, fact) in facts {
        let Some(fact) = fact else { continue };
        for (nth, line) in wrapped(&fact, paint.width, BESIDE).iter().enumerate() {
            let label = if nth == 0 { label } else { "" };
            out.push_str(&format!("  {}  {line}\n", paint.styled(DIM, &format!("{label:10}"))));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows() -> Vec<Value> {
        vec![
            json!({"name": "one", "state": "ready", "revision": "2025-06-18", "tools": 1, "resources": 0, "prompts": 2}),
            json!({"name": "a-server-whose-name-is-longer-than-anybody-would-type", "state": "failing",
                   "error": format!("exited: {}\nsecond line", "long ".repeat(60))}),
            json!({"name": "three", "state": "connecting", "tools": 0}),
        ]
    }

    // edges F14
    #[test]
    fn each_server_has_one_line_that_fits_the_terminal() {
        for width in [72, 80, 120] {
            let lines = lines(&rows(), TerminalPaint { colours: false, width: Some(width) });
            assert_eq!(lines.len(), 3);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:#?}");
            assert!(lines[0].ends_with("1 tool, 2 prompts") && lines[1].contains('…'), "{lines:#?}");
            let column = |line: &str, word: &str| line.split_once(word).map(|(before, _)| before.chars().count());
            assert_eq!(column(&lines[0], "ready"), column(&lines[2], "connecting"), "{lines:#?}");
        }
    }

    // edges F14
    #[test]
    fn without_a_terminal_nothing_is_cut() {
        let lines = lines(&rows(), TerminalPaint { colours: false, width: None });
        assert!(lines[1].starts_with("a-server-whose-name-is-longer-than-anybody-would-type  failing"), "{lines:#?}");
        assert!(lines[1].len() > 300 && !lines[1].contains("second"), "{lines:#?}");
    }

    // edges F14
    #[test]
    fn a_server_that_is_connecting_is_not_shown_as_broken() {
        let lines = lines(&rows(), TerminalPaint { colours: true, width: None });
        let red = format!("{WENT}");
        let lines: Vec<_> = lines.iter().map(|line| crate::plain_text::with_styles(line)).collect();
        assert!(lines[1].contains(&red) && !lines[2].contains(&red), "{lines:#?}");
    }
}
