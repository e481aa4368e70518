//! What is known of clients without anybody saying it. Each row was tried, or read in the client's source; what nobody verified is left out.

use super::{ClientFacts, HeardNotices, NameLimit, PageReading, SchemaRules, VersionRange};
use crate::ledger::{Topic, Topics};

/// The rows; of several for one client the first that fits its version counts.
pub(super) fn known_clients() -> Vec<ClientFacts> {
    let any = ClientFacts::unknown;
    let one_page = || ClientFacts { pages: PageReading::One, ..any() };
    let plain_top = SchemaRules { no_top_combinators: true, ..SchemaRules::default() };
    let all_lists = HeardNotices { lists: Topics::ALL, updated: false };
    vec![
        ClientFacts {
            client: "claude-code",
            version: VersionRange::since("2.1.144"),
            // `mcp__NAME__` and the tool in 128; a longer one is dropped without a word.
            names: NameLimit::Shared(128 - 7),
            hears: hears(&[Topic::Tools, Topic::Resources]),
            // It drops such tools without a word.
            schema: plain_top,
            ..any()
        },
        ClientFacts {
            client: "claude-code",
            // Older ones had room for 64.
            names: NameLimit::Shared(64 - 7),
            hears: hears(&[Topic::Tools, Topic::Resources]),
            schema: plain_top,
            ..one_page()
        },
        // Makes long names short by itself; deaf. Older versions read one page.
        ClientFacts { client: "codex-mcp-client", ..one_page() },
        ClientFacts {
            client: "gemini-cli-mcp-client",
            // `mcp_NAME_` and the tool in 63; of a longer one the middle becomes dots.
            names: NameLimit::Shared(63 - 5),
            hears: all_lists,
            schema: SchemaRules { inline_refs: true, object_output: true, ..SchemaRules::default() },
            ..one_page()
        },
        ClientFacts {
            client: "opencode",
            // `NAME_`, and what the models behind it take.
            names: NameLimit::Shared(64 - 1),
            hears: hears(&[Topic::Tools]),
            // It forbids all arguments of such tools.
            schema: plain_top,
            ..any()
        },
        ClientFacts {
            client: "Visual Studio Code",
            names: NameLimit::Fixed(64 - 18),
            hears: HeardNotices::ALL,
            most_tools: Some(128),
            ..any()
        },
        ClientFacts { client: "Zed", names: NameLimit::Fixed(64), hears: hears(&[Topic::Tools]), ..one_page() },
        goose("goose-cli"),
        goose("goose-desktop"),
        // Makes long names short by itself.
        ClientFacts { client: "Cline", hears: all_lists, ..one_page() },
        ClientFacts { client: "@cline/core", ..one_page() },
        ClientFacts { client: "claude-ai", ..one_page() },
        ClientFacts {
            client: "cursor-vscode",
            // Less than 60 with the gateway's name.
            names: NameLimit::Shared(59),
            hears: hears(&[Topic::Tools]),
            ..one_page()
        },
        ClientFacts { client: "github-copilot-developer", hears: hears(&[Topic::Tools]), ..one_page() },
    ]
}

/// It asks for 2025-03-26, and listens all the same.
fn goose(client: &'static str) -> ClientFacts {
    let hears = hears(&[Topic::Tools]);
    ClientFacts { client, names: NameLimit::Shared(64 - 2), hears, ..ClientFacts::unknown() }
}

fn hears(topics: &[Topic]) -> HeardNotices {
    let mut lists = Topics::default();
    topics.iter().for_each(|topic| lists.insert(*topic));
    HeardNotices { lists, updated: false }
}
