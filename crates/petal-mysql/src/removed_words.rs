//! Tests that no statement has a word that MySQL 8.4 or 9 refuses, by its documentation
//! (<https://dev.mysql.com/doc/refman/8.4/en/mysql-nutshell.html>), unless another one goes before it or a refusal is
//! expected.

use std::fs;
use std::path::{Path, PathBuf};

/// Statements, functions, plugins and variables that 8.0, 8.4 and 9 removed.
const REMOVED: [&str; 32] = [
    "SHOW MASTER",
    "SHOW SLAVE",
    "RESET MASTER",
    "RESET SLAVE",
    "PURGE MASTER",
    "CHANGE MASTER",
    "START SLAVE",
    "STOP SLAVE",
    "MASTER_POS_WAIT",
    "WAIT_UNTIL_SQL_THREAD_AFTER_GTIDS",
    "FLUSH HOSTS",
    "FLUSH DES_KEY_FILE",
    "FLUSH QUERY CACHE",
    "RESET QUERY CACHE",
    "SQL_CACHE",
    "NO_AUTO_CREATE_USER",
    "query_cache_type",
    "tx_isolation",
    "tx_read_only",
    "innodb_locks_unsafe_for_binlog",
    "innodb_file_format",
    "information_schema.innodb_locks",
    "information_schema.innodb_lock_waits",
    "information_schema.global_status",
    "information_schema.global_variables",
    "expire_logs_days",
    "default_authentication_plugin",
    "have_ssl",
    "have_openssl",
    "binlog_transaction_dependency_tracking",
    "transaction_write_set_extraction",
    "log_bin_use_v1_row_events",
];

/// Words of MariaDB and of older releases, each with the reason why a refusal costs nothing.
const EXPECTED: [(&str, &str, &str); 6] = [
    ("servers.rs", "SHOW SLAVE STATUS", "only if SHOW REPLICA STATUS is refused"),
    ("session.rs", "SET SESSION query_cache_type", "an unknown variable is no error"),
    ("facts.rs", "\"query_cache_type\"", "a name in SHOW VARIABLES"),
    ("facts.rs", "\"tx_isolation\"", "a name in SHOW VARIABLES"),
    ("describe.rs", "\"query_cache_type\"", "a name in SHOW VARIABLES"),
    ("errors.rs", "(MariaDB: FLUSH HOSTS)", "advice"),
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let below = folders.iter().flat_map(|folder| sources(folder));
    files.into_iter().chain(below).collect()
}

#[test]
fn no_statement_has_a_word_that_mysql_removed() {
    let own = Path::new(file!()).file_name().unwrap();
    let mut found = Vec::new();
    let mut expected_left = EXPECTED.to_vec();
    for path in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let name = path.file_name().unwrap();
        if name == own {
            continue;
        }
        for line in fs::read_to_string(&path).unwrap().lines() {
            let is_comment =
                line.trim_start().starts_with("//") || line.trim_start().starts_with("--");
            let mut line = line.to_owned();
            for (file, words, _) in EXPECTED.iter().filter(|(file, ..)| name == *file) {
                if line.contains(words) {
                    expected_left.retain(|expected| (expected.0, expected.1) != (*file, *words));
                    line = line.replace(words, "");
                }
            }
            let line = line.to_lowercase();
            let removed = REMOVED.iter().filter(|word| line.contains(&word.to_lowercase()));
            found.extend(removed.filter(|_| !is_comment).map(|word| format!("{name:?}: {word}")));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
    assert!(expected_left.is_empty(), "no longer there: {expected_left:?}");
}
