//! Which changes of the log somebody wants to see.

use std::collections::HashMap;

use serde_json::Value;
use tidings_store::{ChangeLog, ChangeQuery, ChangeRecord, ChangeRow, LogError, QueryStart};

use crate::query_fault::QueryFault;

/// How many rows are read at a time, and how many are looked at for one answer.
const BATCH: usize = 500;
const MOST_SCANNED: usize = 100_000;
const BATCH_BYTES: usize = 4 << 20;
const SEVERITIES: [&str; 4] = ["suspect", "breaking", "wording", "quiet"];

/// What a change must be to be given. What is not asked for fits always.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangeFilter {
    server: Option<String>,
    kind: Option<String>,
    name: Option<String>,
    severity: Option<String>,
    /// As it stands in JSON, without the quotes, in small letters.
    text: Option<String>,
}

impl ChangeFilter {
    pub(crate) fn read(params: &HashMap<String, String>) -> Result<Self, QueryFault> {
        let of = |name: &str| params.get(name).filter(|value| !value.is_empty()).cloned();
        let severity = of("severity");
        if let Some(unknown) = severity.as_ref().filter(|severity| !SEVERITIES.contains(&severity.as_str())) {
            return Err(QueryFault::Severity(unknown.clone()));
        }
        let text = of("q").map(|text| {
            let quoted = Value::from(text.to_lowercase()).to_string();
            quoted[1..quoted.len() - 1].to_owned()
        });
        Ok(Self { server: of("server"), kind: of("kind"), name: of("name"), severity, text })
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn fits(&self, row: &ChangeRow) -> bool {
        if self.text.as_ref().is_some_and(|text| !String::from_utf8_lossy(&row.json).to_lowercase().contains(text)) {
            return false;
        }
        let Ok(record) = serde_json::from_slice::<ChangeRecord>(&row.json) else { return false };
        let is = |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|wanted| wanted == value);
        let mut names = record.added.iter().chain(&record.removed).chain(record.changed.iter().map(|item| &item.name));
        is(&self.server, &record.server)
            && is(&self.kind, &record.kind)
            && self.severity.as_ref().is_none_or(|wanted| record.severity.as_ref() == Some(wanted))
            && self.name.as_ref().is_none_or(|wanted| names.any(|name| name == wanted))
    }

    /// The rows that fit, the oldest first: after a point the next ones, otherwise the newest.
    pub(crate) async fn read_log(
        &self,
        log: &ChangeLog,
        query: ChangeQuery,
    ) -> Result<(Vec<ChangeRow>, u64), LogError> {
        let (mut out, mut bytes, mut scanned, mut from) = (Vec::new(), 0, 0, query.from);
        let backwards = matches!(from, QueryStart::Newest | QueryStart::Before(_));
        if backwards && matches!(from, QueryStart::Newest) {
            from = QueryStart::Before(u64::MAX);
        }
        let last = loop {
            let found = log.read(ChangeQuery { from, limit: BATCH, max_bytes: BATCH_BYTES }).await?;
            let (first, end) = (found.rows.first().map(|row| row.seq), found.rows.last().map(|row| row.seq));
            let (Some(first), Some(end)) = (first, end) else { break found.last };
            scanned += found.rows.len();
            let mut rows = found.rows;
            if backwards {
                rows.reverse();
            }
            for row in rows.into_iter().filter(|row| self.fits(row)) {
                bytes += row.json.len();
                if out.len() == query.limit || bytes > query.max_bytes {
                    break;
                }
                out.push(row);
            }
            if out.len() == query.limit || bytes > query.max_bytes || scanned >= MOST_SCANNED {
                break found.last;
            }
            from = if backwards { QueryStart::Before(first) } else { QueryStart::After(end) };
        };
        if backwards {
            out.reverse();
        }
        Ok((out, last))
    }
}
