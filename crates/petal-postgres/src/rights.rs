//! Functions and views of the server that petal's statements call and that a role may be refused, as on
//! managed servers: `petal check` names them before a load or a run needs them.

use std::collections::BTreeSet;

use super::answer::Columns as _;
use super::client::Client;
use super::connect::{is_refusal, words};
use petal_engine::Result;

/// Names of pg_catalog in a load's statements, without those that a load can miss.
pub const LOAD: [&str; 29] = [
    "array_agg",
    "bool_or",
    "count",
    "current_database",
    "current_setting",
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

/// Questions for the names that the role may not use: functions, then tables and views. If the server refuses
/// the first form of a question, petal reads the grants.
const REFUSED: [[&str; 2]; 2] = [
    [
        "SELECT proname::pg_catalog.text FROM pg_catalog.pg_proc \
         WHERE pronamespace = 'pg_catalog'::pg_catalog.regnamespace AND proname = ANY($1) GROUP BY proname \
         HAVING NOT pg_catalog.bool_or(pg_catalog.has_function_privilege(oid, 'EXECUTE')) ORDER BY 1",
        "SELECT proname::pg_catalog.text FROM pg_catalog.pg_proc \
         WHERE pronamespace = 'pg_catalog'::pg_catalog.regnamespace AND proname = ANY($1) GROUP BY proname \
         HAVING NOT pg_catalog.bool_or(proacl IS NULL OR EXISTS (SELECT FROM pg_catalog.aclexplode(proacl) \
         WHERE privilege_type = 'EXECUTE' AND (grantee = 0 OR pg_catalog.pg_has_role(grantee, 'USAGE')))) \
         ORDER BY 1",
    ],
    [
        "SELECT relname::pg_catalog.text FROM pg_catalog.pg_class \
         WHERE relnamespace = 'pg_catalog'::pg_catalog.regnamespace AND relname = ANY($1) \
         AND NOT pg_catalog.has_table_privilege(oid, 'SELECT') ORDER BY 1",
        "SELECT relname::pg_catalog.text FROM pg_catalog.pg_class \
         WHERE relnamespace = 'pg_catalog'::pg_catalog.regnamespace AND relname = ANY($1) \
         AND NOT EXISTS (SELECT FROM pg_catalog.aclexplode(relacl) \
         WHERE privilege_type = 'SELECT' AND (grantee = 0 OR pg_catalog.pg_has_role(grantee, 'USAGE'))) \
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_roles \
         WHERE rolname = 'pg_read_all_data' AND pg_catalog.pg_has_role(oid, 'USAGE')) ORDER BY 1",
    ],
];

/// Returns the names of this list that the role may not use, in words; None if it may use all. If the server
/// refuses a question, its message counts only if it names one of the list: petal needs no answer to go on.
pub fn refused<'a>(
    client: &mut Client,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<Option<String>> {
    let names: Vec<&str> = names.into_iter().collect();
    let mut refused = BTreeSet::new();
    for forms in REFUSED {
        for sql in forms {
            match client.query(sql, &[&names]) {
                Ok(rows) => {
                    for row in &rows {
                        refused.insert(row.read::<String>(0)?);
                    }
                    break;
                }
                Err(error) if is_refusal(&error) => {
                    let is_named = |name: &&&str| is_word_of(&words(&error), name);
                    refused.extend(names.iter().filter(is_named).map(|&name| name.to_owned()));
                }
                Err(error) => {
                    return Err(client.error("asking which functions it may use", &error));
                }
            }
        }
    }
    let refused: Vec<String> = refused.into_iter().collect();
    Ok((!refused.is_empty()).then(|| refused.join(", ")))
}

fn is_word_of(text: &str, name: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == name)
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
    const OTHERS: [&str; 12] = [
        "has_database_privilege",
        "has_tablespace_privilege",
        "host",
        "oid",
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
