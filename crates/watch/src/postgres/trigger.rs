//! The trigger that tells of a table's changes.

/// A name as SQL has it, exactly as it is written.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// SQL that makes a table notify a channel once per statement that changes it.
pub(super) fn trigger_sql(schema: &str, table: &str, channel: &str) -> String {
    let table = format!("{}.{}", identifier(schema), identifier(table));
    let function = identifier(&format!("tidings_{channel}"));
    let text = format!("'{}'", channel.replace('\'', "''"));
    format!(
        "CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $tidings$\n\
         BEGIN\n  PERFORM pg_notify({text}, '');\n  RETURN NULL;\nEND\n$tidings$;\n\
         DROP TRIGGER IF EXISTS {function} ON {table};\n\
         CREATE TRIGGER {function} AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {table}\n  \
         FOR EACH STATEMENT EXECUTE FUNCTION {function}();\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted() {
        let sql = trigger_sql("shop", "Or\"d.ers", "it's");
        assert!(sql.contains("ON \"shop\".\"Or\"\"d.ers\"") && sql.contains("pg_notify('it''s', '')"), "{sql}");
    }
}
