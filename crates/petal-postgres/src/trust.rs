//! Foreign code that a role's statements would run: others may put objects into a schema of
//! petal's.
//!
//! PostgreSQL runs triggers, rules, policies, constraints, generated columns and routines with the
//! rights of the role that touches a table. So before petal reads a schema it looks for such
//! objects on the tables, and for roles that could add them later: an owner that petal's role does not
//! trust, or a role with TRIGGER.

use std::collections::BTreeSet;

use super::answer::Columns as _;
use super::client::Client;
use super::rights;
use petal_engine::{EngineError, Result};

const ME: &str = include_str!("sql/me.sql");

/// Refuses a schema whose tables would run somebody else's code with this role's rights.
pub fn check_schema(client: &mut Client, name: &str) -> Result<()> {
    let sql = include_str!("sql/trust.sql").replace("{me}", ME.trim_end());
    let rows = client.ask(&format!("asking for code on the tables of {name}"), &sql, &[&name])?;
    let Some(row) = rows.first() else { return Ok(()) };
    let (kind, what): (String, String) = (row.read(0)?, row.read(1)?);
    let server = &client.server;
    let why = match (&*kind, row.read::<Option<String>>(2)?) {
        ("owner", Some(owner)) => format!(
            "{what} belongs to role {owner}, whose code could run with the rights of your role; \
             connect as {owner}, or load the data again with your role (petal setup --replace)"
        ),
        _ => format!(
            "{name}.{what}: its code would run with your role's rights, and no load of petal's \
             makes it; remove it, or load the data again (petal setup --replace)"
        ),
    };
    Err(EngineError::Environment(format!("{server}: {why}")))
}

/// A routine with the name of petal's.
pub struct FoundRoutine {
    pub comment: Option<String>,
    /// True if source, properties and owner are petal's.
    pub is_petals: bool,
}

/// The names of pg_catalog that a run needs before it reads the tables.
pub fn table_names() -> BTreeSet<&'static str> {
    let mut names = rights::names(include_str!("sql/trust.sql"));
    names.extend(rights::names(ME));
    names.insert("pg_try_advisory_lock_shared");
    names
}

/// The names of pg_catalog that the question for routines uses.
pub fn routine_names() -> BTreeSet<&'static str> {
    [include_str!("sql/routines.sql"), ME].into_iter().flat_map(rights::names).collect()
}

/// Routines in a schema by the name of petal's, compared with the text that petal makes.
pub fn routines(client: &mut Client, name: &str, routine: &str) -> Result<Vec<FoundRoutine>> {
    let sql = include_str!("sql/routines.sql").replace("{me}", ME.trim_end());
    // The server keeps only the text between its quotes.
    let source = routine.split("$petal$").nth(1).unwrap_or_default();
    let rows = client.ask("looking for petal's routine", &sql, &[&name, &source])?;
    let found = |row: &tokio_postgres::Row| {
        let is_petals = row.read::<Option<bool>>(1)?.unwrap_or(false);
        Ok(FoundRoutine { comment: row.read(0)?, is_petals })
    };
    rows.iter().map(found).collect()
}
