//! Foreign code that petal's statements would run: a view in place of a table calls functions with
//! the rights of its reader, a trigger works on each row, and a routine may be anybody's text. The
//! server has no lock that keeps a routine as it is during a run, so an account that administers the
//! server also needs a database where no other user may make such code.

use super::client::Client;
use petal_engine::{EngineError, Result};

/// The account of the connection, as information_schema writes it.
const ME: &str = "CONCAT('''', LEFT(CURRENT_USER(), CHAR_LENGTH(CURRENT_USER()) - 1 \
    - CHAR_LENGTH(SUBSTRING_INDEX(CURRENT_USER(), '@', -1))), '''@''', \
    SUBSTRING_INDEX(CURRENT_USER(), '@', -1), '''')";

/// Refuses a database in which a lesser user may make code that would run with the rights of an
/// account that administers the server or reads other databases.
pub fn check_users(client: &mut Client) -> Result<()> {
    let sql = format!(
        "SELECT CONCAT(rights.grantee, ' has ', rights.privilege_type) FROM \
         (SELECT grantee, privilege_type FROM information_schema.user_privileges UNION ALL \
         SELECT grantee, privilege_type FROM information_schema.schema_privileges \
         WHERE DATABASE() LIKE table_schema UNION ALL \
         SELECT grantee, privilege_type FROM information_schema.table_privileges \
         WHERE table_schema = DATABASE()) AS rights \
         WHERE rights.privilege_type IN ('CREATE ROUTINE', 'CREATE VIEW') \
         AND rights.grantee <> {ME} AND rights.grantee NOT IN \
         (SELECT grantee FROM information_schema.user_privileges \
         WHERE privilege_type IN ('SUPER', 'CREATE USER')) \
         AND EXISTS (SELECT 1 FROM information_schema.user_privileges WHERE grantee = {ME} \
         AND privilege_type IN ('SUPER', 'CREATE USER', 'FILE', 'SELECT', 'INSERT', 'UPDATE', \
         'DELETE', 'EXECUTE'))"
    );
    let found: Vec<String> = client.ask("asking who may make routines and views", &sql)?;
    match found.first() {
        None => Ok(()),
        Some(what) => Err(EngineError::Environment(format!(
            "{}: {what} on petal's database: code of that user could run with the rights of your \
             account, which has rights on all databases; connect with an account that has rights on \
             this database only, use a database without other users, or revoke CREATE ROUTINE and \
             CREATE VIEW there",
            client.server
        ))),
    }
}

/// Refuses a schema whose tables are views, have others' code on them, or are of a storage engine that
/// petal does not count.
pub fn check_tables(client: &mut Client, name: &str, tables: &[&str]) -> Result<()> {
    let tables: Vec<String> = tables.iter().map(|table| format!("'{name}_{table}'")).collect();
    let tables = tables.join(", ");
    let sql = format!(
        "SELECT CONCAT(table_name, ' is a ', IF(table_type = 'BASE TABLE', \
         CONCAT('table of ', engine), LOWER(table_type))) FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND table_name IN ({tables}) \
         AND (table_type <> 'BASE TABLE' OR engine <> 'InnoDB') \
         UNION ALL \
         SELECT CONCAT(event_object_table, ' has trigger ', trigger_name, ' of ', definer) \
         FROM information_schema.triggers \
         WHERE event_object_schema = DATABASE() AND event_object_table IN ({tables})"
    );
    let found: Vec<String> =
        client.ask(&format!("asking for the kind of the tables of {name}"), &sql)?;
    match found.first() {
        None => Ok(()),
        Some(what) => Err(EngineError::Environment(format!(
            "{}: {what}, as no load of petal's makes it: others' code would run, or the figures be \
             wrong; remove it, or load the data again (petal setup --replace)",
            client.server
        ))),
    }
}

/// Whether a schema's routine is this petal's by its text, so that it needs not be made. A text
/// that the server does not show is not.
pub fn is_petals(
    client: &mut Client,
    name: &str,
    routine: &str,
    routine_comment: &str,
) -> Result<bool> {
    let sql = format!(
        "SELECT COALESCE(routine_definition, ''), security_type, routine_comment \
         FROM information_schema.routines \
         WHERE routine_schema = DATABASE() AND routine_type = 'PROCEDURE' \
         AND routine_name = '{name}_run'"
    );
    let found: Vec<(String, String, String)> =
        client.ask(&format!("looking for {name}_run"), &sql)?;
    let text = routine.find("\nBEGIN").map_or("", |at| routine[at..].trim());
    Ok(matches!(found.as_slice(), [(definition, security, comment)]
        if definition.trim() == text && security == "INVOKER" && comment == routine_comment))
}
