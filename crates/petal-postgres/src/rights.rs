//! Functions and views of the server that petal's statements call and that a role may be refused, as on
//! managed servers: `petal check` names them before a load or a run needs them.

use std::collections::BTreeSet;

use super::answer::Columns as _;
use super::client::Client;
use super::connect::is_refusal;
use petal_engine::Result;

/// Names of pg_catalog in a load's statements, without those that a load can miss.
pub const LOAD: [&str; 31] = [
    "array_agg",
    "bool_or",
    "count",
    "current_database",
    "current_setting",
    "has_database_privilege",
    "has_tablespace_privilege",
    "hashtext",
    "length",
    "max",
    "obj_description",
    "pg_backend_pid",
    "pg_class",
    "pg_database",
    "pg_get_userbyid",
    "pg_has_role",
    "pg_is_in_recovery",
    "pg_namespace",
    "pg_proc",
    "pg_relation_size",
    "pg_roles",
    "pg_settings",
    "pg_size_bytes",
    "pg_tablespace",
    "pg_tablespace_location",
    "pg_try_advisory_lock",
    "regprocedure",
    "set_config",
    "string_agg",
    "substr",
    "to_regclass",
];

/// Questions for the names that the role may not use, each with the function that it needs.
const REFUSED: [(&str, &str); 2] = [
    (
        "has_function_privilege",
        "SELECT proname::pg_catalog.text FROM pg_catalog.pg_proc \
         WHERE pronamespace = 'pg_catalog'::pg_catalog.regnamespace AND proname = ANY($1) GROUP BY proname \
         HAVING NOT pg_catalog.bool_or(pg_catalog.has_function_privilege(oid, 'EXECUTE')) ORDER BY 1",
    ),
    (
        "has_table_privilege",
        "SELECT relname::pg_catalog.text FROM pg_catalog.pg_class \
         WHERE relnamespace = 'pg_catalog'::pg_catalog.regnamespace AND relname = ANY($1) \
         AND NOT pg_catalog.has_table_privilege(oid, 'SELECT') ORDER BY 1",
    ),
];

/// Returns the names of this list that the role may not use, in words; None if it may use all. A question that
/// the server refuses costs its own answer alone: the function that it needs is then one of the names.
pub fn refused<'a>(
    client: &mut Client,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<Option<String>> {
    let names: Vec<&str> = names.into_iter().collect();
    let mut refused = Vec::new();
    for (function, sql) in REFUSED {
        match client.query(sql, &[&names]) {
            Ok(rows) => {
                for row in &rows {
                    refused.push(row.read::<String>(0)?);
                }
            }
            Err(error) if is_refusal(&error) => refused.push(function.to_owned()),
            Err(error) => return Err(client.error("asking which functions it may use", &error)),
        }
    }
    Ok((!refused.is_empty()).then(|| refused.join(", ")))
}

/// The names of pg_catalog in a text of SQL.
pub fn names(sql: &str) -> BTreeSet<&str> {
    let name = |rest: &str| rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names =
        sql.split("pg_catalog.").skip(1).map(|rest| &rest[..name(rest).unwrap_or(rest.len())]);
    names.filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that a load can miss, that are types, or that belong to a run in the same files.
    const OTHERS: [&str; 9] = [
        "host",
        "pg_locks",
        "pg_stat_activity",
        "pg_stat_progress_create_index",
        "pg_try_advisory_lock_shared",
        "text",
        "to_char",
        "regnamespace",
        "float8",
    ];

    #[test]
    fn all_that_a_load_calls_is_known_before_it() {
        let sources = [
            include_str!("load.rs"),
            include_str!("filling.rs"),
            include_str!("placement.rs"),
            include_str!("schema.rs"),
            include_str!("in_use.rs"),
            include_str!("long_work.rs"),
            include_str!("sql/tables.sql"),
            include_str!("sql/index.sql"),
            include_str!("sql/analyze.sql"),
            include_str!("sql/placement.sql"),
            include_str!("sql/schemas.sql"),
            include_str!("sql/drop.sql"),
            include_str!("sql/me.sql"),
        ];
        let code = sources.map(|source| source.split("#[cfg(test)]").next().unwrap_or(source));
        let called = code.iter().flat_map(|source| names(source));
        let is_known = |name: &&str| LOAD.contains(name) || OTHERS.contains(name);
        let unknown: BTreeSet<&str> = called.filter(|name| !is_known(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn names_are_found_in_sql() {
        let sql =
            "SELECT pg_catalog.count(x)::pg_catalog.text, pg_catalog.\n FROM pg_catalog.pg_class";
        assert_eq!(names(sql).into_iter().collect::<Vec<_>>(), ["count", "pg_class", "text"]);
    }
}
