//! Publications of logical replication. The server refuses each UPDATE of a table that is published
//! and has no replica identity; `FOR ALL TABLES` takes in petal's tables, too.

use tokio_postgres::error::SqlState;

use super::answer::Columns as _;
use super::client::Client;
use super::{schema, trust};
use petal_engine::Result;

/// Returns why the server refuses every UPDATE of some main table, and what to do; `None` if it does
/// not.
pub fn refusal(client: &mut Client, schemas: &[u32]) -> Result<Option<String>> {
    for &number in schemas {
        let name = schema::name(number);
        // The planner may run code of the table's owner.
        trust::check_schema(client, &name)?;
        let table = format!("{name}.cf1");
        // An executor begins with this check; EXPLAIN changes nothing and fires no trigger.
        let sql = format!("EXPLAIN UPDATE {table} SET c2 = c2 WHERE false");
        let Err(error) = client.simple_query(&sql) else { continue };
        // Other refusals have questions of their own.
        if error.code() != Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE) {
            continue;
        }
        let row = client.ask_row("asking for publications", PUBLICATIONS, &[&table])?;
        let names: Option<String> = row.read(0)?;
        let names = names.map_or_else(String::new, |names| format!(" by {names}"));
        let identity = match row.read(1)? {
            // Nothing more is logged: an UPDATE does not change the key.
            true => "ALTER custid SET NOT NULL, REPLICA IDENTITY USING INDEX cf1_custid",
            false => "REPLICA IDENTITY FULL (each UPDATE then logs the old row, too)",
        };
        return Ok(Some(format!(
            "UPDATEs of {table} are published{names}, and it has no replica identity: ALTER TABLE \
             {table} {identity}, or publish only tables of your own"
        )));
    }
    Ok(None)
}

/// Returns why the server will refuse every UPDATE of tables that a load makes, and what to do; `None` if it
/// will not.
pub fn refusal_after_load(client: &mut Client) -> Result<Option<String>> {
    let names = client.ask_if_allowed::<Option<String>>("asking for publications", OF_ALL, &[])?;
    Ok(names.flatten().map(|names| {
        format!(
            "UPDATEs of all tables are published by {names} (FOR ALL TABLES), and petal's have no replica \
             identity: after the load ALTER TABLE petal1.cf1 REPLICA IDENTITY FULL (each UPDATE then logs the \
             old row, too), or publish only tables of your own"
        )
    }))
}

/// The publications of every table's UPDATEs.
const OF_ALL: &str = "SELECT pg_catalog.string_agg(pubname::pg_catalog.text, ', ' ORDER BY pubname) \
     FROM pg_catalog.pg_publication WHERE pubupdate AND puballtables";

/// The publications of a table's UPDATEs, and whether the index of petal's table is unique.
const PUBLICATIONS: &str = "SELECT pg_catalog.string_agg(pubname::pg_catalog.text || \
         CASE WHEN puballtables THEN ' (FOR ALL TABLES)' ELSE '' END, ', ' ORDER BY pubname), \
         coalesce((SELECT indisunique FROM pg_catalog.pg_index WHERE indexrelid = \
                   pg_catalog.to_regclass($1::pg_catalog.text || '_custid')), false) \
     FROM pg_catalog.pg_publication p WHERE pubupdate AND EXISTS \
         (SELECT FROM pg_catalog.pg_publication_tables t WHERE t.pubname = p.pubname \
          AND t.schemaname || '.' || t.tablename = $1)";
