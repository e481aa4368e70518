//! An MCP client of either era on one connection: what it sends, and what it accepts as an answer.

use std::io::Write as _;

use clap::ValueEnum;
use memchr::memmem;

use crate::echo::{EchoEra, LEGACY_REVISION, MODERN_REVISION};
use crate::error::BenchError;
use crate::load::http::{LoadAnswer, LoadConnection};

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoadOperation {
    /// `tools/call` of the echo tool, with a text and an id that no other request has.
    Call,
    /// `tools/list`, always with id 1, which a fixed body can answer.
    List,
}

/// A client on one connection.
pub(crate) struct LoadClient {
    connection: LoadConnection,
    era: EchoEra,
    tool: String,
    session: Option<String>,
    /// The token that each request shows.
    bearer: Option<String>,
    next_id: u64,
    /// Reused from request to request.
    body: Vec<u8>,
    request: Vec<u8>,
    wanted: Vec<u8>,
}

impl LoadClient {
    /// Opens the session that the era asks for.
    pub(crate) async fn start(connection: LoadConnection, era: EchoEra, tool: &str) -> Result<Self, BenchError> {
        Self::start_with_token(connection, era, tool, None).await
    }

    /// The same with a token.
    pub(crate) async fn start_with_token(
        connection: LoadConnection,
        era: EchoEra,
        tool: &str,
        bearer: Option<&str>,
    ) -> Result<Self, BenchError> {
        let mut client = Self::without_session(connection, era, tool);
        client.bearer = bearer.map(str::to_owned);
        if era == EchoEra::Legacy {
            client.open_session().await?;
        }
        Ok(client)
    }

    /// For an endpoint that knows no sessions. A legacy client names one nevertheless, so that its
    /// requests are as long as any other's.
    pub(crate) fn without_session(connection: LoadConnection, era: EchoEra, tool: &str) -> Self {
        Self {
            connection,
            era,
            tool: tool.to_owned(),
            session: (era == EchoEra::Legacy).then(|| "no-session-was-opened-here".to_owned()),
            bearer: None,
            // 0 is that of `initialize`, 1 that of lists.
            next_id: 2,
            body: Vec::new(),
            request: Vec::new(),
            wanted: Vec::new(),
        }
    }

    /// The session that was opened.
    pub(crate) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    async fn open_session(&mut self) -> Result<(), BenchError> {
        self.session = None;
        self.body = format!(
            r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{LEGACY_REVISION}","capabilities":{{}},"clientInfo":{{"name":"bench","version":"1.0.0"}}}}}}"#
        )
        .into_bytes();
        let answer = self.send("initialize").await?;
        let session = answer.header("mcp-session-id").map(str::to_owned);
        if answer.status != 200 || session.is_none() {
            return Err(unexpected("a session", &answer));
        }
        self.session = session;

        self.body = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_vec();
        let answer = self.send("notifications/initialized").await?;
        if answer.status != 202 {
            return Err(unexpected("status 202", &answer));
        }
        Ok(())
    }

    /// Asks once; anything but the right answer is an error.
    pub(crate) async fn ask(&mut self, operation: LoadOperation) -> Result<(), BenchError> {
        match operation {
            LoadOperation::Call => self.call().await,
            LoadOperation::List => self.list().await.map(drop),
        }
    }

    /// Calls the echo tool and checks id and text of the answer.
    pub(crate) async fn call(&mut self) -> Result<(), BenchError> {
        let id = self.next_id;
        self.next_id += 1;
        self.body.clear();
        // Writing to memory does not fail, here and below.
        let _ = write!(
            self.body,
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{}","arguments":{{"text":"echo of {id}."}}{}}}}}"#,
            self.tool,
            self.meta(true),
        );
        // Taken out because `send` borrows the whole client; put back below, so that its memory is used again.
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.clear();
        let _ = write!(wanted, r#""echo of {id}.""#);
        let answer = self.send("tools/call").await?;
        // Found by bytes, because parsing JSON would cost the client more than the gateway.
        let right = answer.status == 200 && memmem::find(answer.body, &wanted).is_some() && has_id(answer.body, id);
        if !right {
            return Err(unexpected("the echo", &answer));
        }
        self.wanted = wanted;
        Ok(())
    }

    /// Lists the tools; gives the body.
    pub(crate) async fn list(&mut self) -> Result<&[u8], BenchError> {
        self.body.clear();
        let _ =
            write!(self.body, r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{{}}}}}"#, self.meta(false),);
        let answer = self.send("tools/list").await?;
        let right =
            answer.status == 200 && memmem::find(answer.body, br#""tools":["#).is_some() && has_id(answer.body, 1);
        if !right {
            return Err(unexpected("a tool list", &answer));
        }
        Ok(answer.body)
    }

    /// The `_meta` member of the params, after a comma where other members come first.
    fn meta(&self, after_others: bool) -> &'static str {
        const META: &str = r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{}}"#;
        match (self.era, after_others) {
            (EchoEra::Legacy, _) => "",
            (EchoEra::Modern, true) => META,
            (EchoEra::Modern, false) => &META[1..],
        }
    }

    /// Posts `self.body` with the headers of the era.
    async fn send(&mut self, method: &str) -> Result<LoadAnswer<'_>, BenchError> {
        let out = &mut self.request;
        out.clear();
        let _ = write!(
            out,
            "POST /mcp HTTP/1.1\r\nhost: {}\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\n",
            self.connection.to,
        );
        match (self.era, &self.session) {
            (EchoEra::Modern, _) => {
                let _ = write!(out, "mcp-protocol-version: {MODERN_REVISION}\r\nmcp-method: {method}\r\n");
                if method == "tools/call" {
                    let _ = write!(out, "mcp-name: {}\r\n", self.tool);
                }
            }
            (EchoEra::Legacy, Some(session)) => {
                let _ = write!(out, "mcp-protocol-version: {LEGACY_REVISION}\r\nmcp-session-id: {session}\r\n");
            }
            (EchoEra::Legacy, None) => {}
        }
        if let Some(bearer) = &self.bearer {
            let _ = write!(out, "authorization: Bearer {bearer}\r\n");
        }
        let _ = write!(out, "content-length: {}\r\n\r\n", self.body.len());
        out.extend_from_slice(&self.body);
        Ok(self.connection.exchange(&self.request).await?)
    }
}

fn has_id(body: &[u8], id: u64) -> bool {
    let wanted = format!(r#""id":{id}"#);
    // What follows is looked at because `"id":1` is also the beginning of `"id":12`.
    memmem::find_iter(body, wanted.as_bytes()).any(|at| matches!(body.get(at + wanted.len()), Some(b',' | b'}')))
}

fn unexpected(expected: &'static str, answer: &LoadAnswer<'_>) -> BenchError {
    let got = [format!("{} ", answer.status).as_bytes(), answer.body].concat();
    BenchError::unexpected("the endpoint", expected, &got)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_only_begins_alike_is_another_id() {
        assert!(has_id(br#"{"id":12,"result":{}}"#, 12));
        assert!(has_id(br#"{"result":{},"id":12}"#, 12));
        assert!(!has_id(br#"{"id":123,"result":{}}"#, 12));
    }
}
