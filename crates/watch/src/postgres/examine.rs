//! Whether a watched query works, which tables it reads, and whether each of them tells of its changes.

use std::time::Duration;

use serde_json::Value;
use tokio_postgres::Client;
use tokio_postgres::types::{FromSql, Type};

use tidings_config::watch::PostgresWatch;

use super::super::kinds::WatchFinding;
use super::{AboutResource, AddressFault, NoRows, PostgresSource, rows, trigger_sql};

/// How long the questions about the tables may take together.
const PATIENCE: Duration = Duration::from_secs(10);

/// The bits of `pg_trigger.tgtype`, each with its statement.
const STATEMENTS: [(i16, &str); 4] = [(4, "INSERT"), (16, "UPDATE"), (8, "DELETE"), (32, "TRUNCATE")];

/// Why a watched query could not be examined, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotExamined {
    /// The connection URL is of no use.
    #[error("{0}")]
    Address(#[from] AddressFault),
    /// The database can not be had, or does not answer the query.
    #[error("{0}")]
    Database(String),
}

/// A table that a query reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExaminedTable {
    /// Its name with its schema.
    pub(super) table: String,
    /// Whether its changes are told.
    pub(super) trigger: TriggerState,
    /// SQL that makes it tell, to be run by its owner. Empty where no trigger helps.
    pub(super) sql: String,
}

/// What is there to tell of a table's changes on the channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TriggerState {
    /// A trigger fires on every change.
    Installed,
    /// No trigger of the table notifies the channel.
    Missing,
    /// There is one, but it was switched off.
    Disabled,
    /// These statements change the table, and nothing is told.
    Partial(Vec<&'static str>),
    /// Not a table that can have such a trigger: what it is.
    Impossible(&'static str),
}

impl From<NoRows> for NotExamined {
    fn from(why: NoRows) -> Self {
        Self::Database(why.to_string())
    }
}

/// Asks the database: runs the query once, and looks at each table that its plan names.
pub(super) async fn examine(watch: PostgresWatch) -> Result<Vec<ExaminedTable>, NotExamined> {
    let source = PostgresSource::new(AboutResource::default(), watch)?;
    let mut connected = source.connect().await?;
    // The query itself first: a faulty one is told with the words of the database.
    rows::fetch(&mut connected.client, &source.query, source.limits).await?;
    let tables = tables(&mut connected.client, &source.query, &source.channel);
    Ok(tokio::time::timeout(PATIENCE, tables).await.unwrap_or(Err(NoRows::Late(PATIENCE)))?)
}

/// What `tidings doctor` says of a watched query.
pub(super) async fn findings(watch: &PostgresWatch) -> Vec<WatchFinding> {
    worded(&watch.channel, examine(watch.clone()).await)
}

/// One finding for each table of the query.
fn worded(channel: &str, examined: Result<Vec<ExaminedTable>, NotExamined>) -> Vec<WatchFinding> {
    let tables = match examined {
        // Found with the configuration.
        Err(NotExamined::Address(_)) => return Vec::new(),
        Err(NotExamined::Database(why)) => {
            let remedy = "try the same with: psql URL -c QUERY; the log of PostgreSQL says more";
            return vec![WatchFinding::problem(why, remedy)];
        }
        Ok(tables) => tables,
    };
    if tables.is_empty() {
        let what = "the query works, but which tables it reads can not be told";
        let remedy = format!("have something run: NOTIFY \"{channel}\" whenever its rows change");
        return vec![WatchFinding::note(what, remedy)];
    }
    tables.into_iter().map(|table| table_finding(channel, table)).collect()
}

fn table_finding(channel: &str, examined: ExaminedTable) -> WatchFinding {
    let ExaminedTable { table, trigger, sql } = examined;
    let run = "run this as the owner of the table, once:";
    match trigger {
        TriggerState::Installed => {
            let what = format!("the query works; {table} has a trigger that tells \"{channel}\" of changes");
            WatchFinding::fine(what).with_sql(sql)
        }
        TriggerState::Missing => {
            WatchFinding::problem(format!("no trigger of {table} notifies \"{channel}\": nobody hears of changes"), run)
                .with_sql(sql)
        }
        TriggerState::Disabled => {
            let what = format!("the trigger of {table} that notifies \"{channel}\" is disabled");
            WatchFinding::problem(what, format!("ALTER TABLE … ENABLE TRIGGER …, or {run}")).with_sql(sql)
        }
        TriggerState::Partial(untold) => {
            let what = format!("\"{channel}\" is not told of {} on {table}", untold.join(", "));
            WatchFinding::problem(what, run).with_sql(sql)
        }
        TriggerState::Impossible(what) => {
            let what = format!("{table} is {what}, which can not tell of its changes");
            let remedy = format!("have whatever changes it run: NOTIFY \"{channel}\"");
            WatchFinding::note(what, remedy)
        }
    }
}

async fn tables(client: &mut Client, query: &str, channel: &str) -> Result<Vec<ExaminedTable>, NoRows> {
    // `EXPLAIN` runs nothing, but functions may be evaluated while it plans.
    let transaction = client.build_transaction().read_only(true).start().await.map_err(NoRows::Query)?;
    // The line break ends a comment at the end of the query.
    let query = query.trim().trim_end_matches(';');
    let explain = format!("EXPLAIN (VERBOSE, FORMAT JSON) SELECT * FROM (\n{query}\n) AS tidings");
    let plan = transaction.query_one(&explain, &[]).await.map_err(NoRows::Query)?;
    let plan: JsonText = plan.try_get(0).map_err(NoRows::Query)?;
    let mut named = Vec::new();
    relations(&serde_json::from_str(&plan.0).unwrap_or_default(), &mut named);
    named.sort();
    named.dedup();
    let mut examined: Vec<ExaminedTable> = Vec::new();
    for (schema, name) in named {
        let row = transaction.query_opt(TABLE, &[&schema, &name]).await.map_err(NoRows::Query)?;
        // Gone since the plan was made.
        let Some(row) = row else { continue };
        let (oid, schema, name, kind): (u32, String, String, String) = (row.get(0), row.get(1), row.get(2), row.get(3));
        let table = format!("{schema}.{name}");
        // Several partitions lead to one table.
        if examined.iter().any(|known| known.table == table) {
            continue;
        }
        let trigger = match impossible(&schema, &kind) {
            Some(what) => TriggerState::Impossible(what),
            None => {
                let rows = transaction.query(TRIGGERS, &[&oid]).await.map_err(NoRows::Query)?;
                let found: Vec<TableTrigger> = rows.iter().map(TableTrigger::read).collect();
                state(&found, channel)
            }
        };
        let sql = match trigger {
            TriggerState::Impossible(_) => String::new(),
            _ => trigger_sql(&schema, &name, channel),
        };
        examined.push(ExaminedTable { table, trigger, sql });
    }
    Ok(examined)
}

/// A table by its name; of a partition, the table that it is a part of.
const TABLE: &str = "\
    select root.oid, space.nspname::text, root.relname::text, root.relkind::text \
    from pg_class part join pg_namespace home on home.oid = part.relnamespace \
    join pg_class root on root.oid = coalesce(pg_partition_root(part.oid)::oid, part.oid) \
    join pg_namespace space on space.oid = root.relnamespace \
    where home.nspname = $1::text and part.relname = $2::text";

/// The triggers of a table, with what they run.
const TRIGGERS: &str = "\
    select t.tgtype, t.tgenabled::text, p.prosrc, encode(t.tgargs, 'escape') \
    from pg_trigger t join pg_proc p on p.oid = t.tgfoid where t.tgrelid = $1 and not t.tgisinternal";

struct TableTrigger {
    statements: i16,
    enabled: bool,
    body: String,
    arguments: String,
}

impl TableTrigger {
    fn read(row: &tokio_postgres::Row) -> Self {
        let enabled: String = row.get(1);
        // `D` is disabled; all other letters fire in some session.
        Self { statements: row.get(0), enabled: enabled != "D", body: row.get(2), arguments: row.get(3) }
    }

    /// Whether it notifies the channel: by a word of its own, or one that it was given.
    fn tells(&self, channel: &str) -> bool {
        let body = self.body.to_lowercase();
        // Functions are read as text: a trigger that notifies by a detour is taken for none, and the user is shown how
        // to add one.
        if !body.contains("notify") {
            return false;
        }
        let quoted = [format!("'{}'", channel.replace('\'', "''")), super::trigger::identifier(channel)];
        let folded = format!("notify {channel}");
        // PostgreSQL ends each argument with a zero, which `escape` writes like this.
        let given = self.arguments.split("\\000").any(|argument| argument == channel);
        given || quoted.iter().any(|word| self.body.contains(word)) || body.contains(&folded)
    }
}

fn state(triggers: &[TableTrigger], channel: &str) -> TriggerState {
    let telling: Vec<&TableTrigger> = triggers.iter().filter(|trigger| trigger.tells(channel)).collect();
    if telling.is_empty() {
        return TriggerState::Missing;
    }
    // Several triggers may share the work, one for each statement.
    let covered = telling.iter().filter(|trigger| trigger.enabled).fold(0, |all, trigger| all | trigger.statements);
    let untold: Vec<&'static str> =
        STATEMENTS.iter().filter(|(bit, _)| covered & bit == 0).map(|(_, word)| *word).collect();
    match untold.len() {
        0 => TriggerState::Installed,
        all if all == STATEMENTS.len() => TriggerState::Disabled,
        _ => TriggerState::Partial(untold),
    }
}

fn impossible(schema: &str, kind: &str) -> Option<&'static str> {
    match kind {
        _ if schema == "pg_catalog" || schema == "information_schema" => Some("a table of the system"),
        "r" | "p" => None,
        "m" => Some("a materialized view"),
        "f" => Some("a foreign table"),
        _ => Some("not a table"),
    }
}

/// The tables that a plan reads, wherever in it they stand.
fn relations(plan: &Value, found: &mut Vec<(String, String)>) {
    match plan {
        Value::Array(parts) => parts.iter().for_each(|part| relations(part, found)),
        Value::Object(node) => {
            if let (Some(schema), Some(name)) = (node.get("Schema"), node.get("Relation Name"))
                && let (Some(schema), Some(name)) = (schema.as_str(), name.as_str())
            {
                found.push((schema.to_owned(), name.to_owned()));
            }
            node.values().for_each(|part| relations(part, found));
        }
        _ => {}
    }
}

/// JSON as the server writes it.
struct JsonText(String);

impl<'a> FromSql<'a> for JsonText {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(std::str::from_utf8(raw)?.to_owned()))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::JSON
    }
}
