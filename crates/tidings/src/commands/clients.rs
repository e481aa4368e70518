//! `tidings clients`: what each client was told, and whether it listed again.

use serde_json::Value;

use super::terminal::{BOLD, DIM, OTHER, TerminalPaint, WENT, harmless};
use crate::backend::api;
use crate::cli::Cli;
use crate::data::DataDir;
use crate::failure::CommandFailure;

pub(super) async fn run(cli: &Cli, as_json: bool) -> Result<(), CommandFailure> {
    let running = DataDir::find(cli.data.as_deref())?.running_now()?;
    let found = api(&running, "clients").await?;
    if as_json {
        println!("{found:#}");
        return Ok(());
    }
    let mut rows: Vec<&Value> = found["clients"].as_array().into_iter().flatten().collect();
    if rows.is_empty() {
        eprintln!(
            "Nobody is connected. Modern clients are shown while they listen, and for ten minutes after they asked for a list."
        );
    }
    // Trouble first.
    rows.sort_by_key(|row| rank(row["state"].as_str().unwrap_or_default()));
    let paint = TerminalPaint::for_stdout();
    rows.iter().for_each(|row| println!("{}", line(row, paint)));
    Ok(())
}

fn rank(state: &str) -> u8 {
    match state {
        "deaf" => 0,
        "unreached" => 1,
        "owed" | "waiting" => 2,
        "sent" => 3,
        "heard" => 4,
        _ => 5,
    }
}

fn line(row: &Value, paint: TerminalPaint) -> String {
    let text = |key: &str| harmless(row[key].as_str().unwrap_or_default());
    let name = harmless(row["name"].as_str().unwrap_or("a client without a name"));
    let (shape, style) = match row["state"].as_str().unwrap_or_default() {
        "deaf" => ("◆", WENT),
        "unreached" => ("▲", WENT),
        "owed" => ("◔", OTHER),
        "waiting" => ("◐", OTHER),
        "heard" => ("●", DIM),
        "sent" => ("◌", DIM),
        "not asking" => ("–", DIM),
        "silent" => ("○", DIM),
        _ => ("?", DIM),
    };
    let state = paint.styled(style, &format!("{shape} {:<10}", text("state")));
    let who = format!("{} {}, {}, {}", text("kind"), row["id"], text("revision"), text("principal"));
    format!("{state}  {}  {}  {}", paint.styled(BOLD, &name), text("reason"), paint.styled(DIM, &who))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_says_how_a_client_stands_and_why() {
        let row = json!({ "id": 12, "kind": "session", "name": "claude\u{1b}[2J", "principal": "laptop", "revision": "2025-06-18",
            "state": "deaf", "reason": "told 61 s ago of tools, and did not list since" });
        let line = line(&row, TerminalPaint { colours: false, width: None });
        assert_eq!(
            line,
            "◆ deaf        claude\\u{1b}[2J  told 61 s ago of tools, and did not list since  session 12, 2025-06-18, laptop"
        );
    }
}
