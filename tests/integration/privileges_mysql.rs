//! Refusals of MariaDB and MySQL to a user: each privilege of petal's page is revoked alone, accounts are
//! limited, and servers that only read or log statements.

use crate::privileges::{self, Effect, Limit, Limited};
use crate::server_mysql::{Server, is_there, mariadb, shared};
use crate::support::{Workplace, is_long};

const ON_DATABASE: [&str; 12] = [
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "DROP",
    "ALTER",
    "INDEX",
    "EXECUTE",
    "CREATE ROUTINE",
    "ALTER ROUTINE",
    "LOCK TABLES",
];

/// Privileges on the whole server and on other tables.
const ELSEWHERE: [&str; 4] = [
    "PROCESS ON *.*",
    "RELOAD ON *.*",
    "SELECT ON performance_schema.*",
    "SELECT ON mysql.innodb_index_stats",
];

/// Each privilege revoked, and limits of accounts.
fn limits() -> Vec<Limit> {
    let missing = ["missing", "denied to user", "Access denied"];
    let on_database = ON_DATABASE.map(|what| (what, format!("{what} ON `{{database}}`.*")));
    let elsewhere = ELSEWHERE.map(|what| (what, what.to_owned()));
    let revoked = on_database.into_iter().chain(elsewhere).map(|(what, right)| {
        let sql = format!("REVOKE {right} FROM {{user}}");
        Limit::new(&format!("no {what}"), &[&sql], &missing)
    });
    let account = |limit: &str| {
        let sql = match mariadb() {
            Some(_) if limit.starts_with("MAX") => {
                format!("GRANT USAGE ON *.* TO {{user}} WITH {limit}")
            }
            _ => format!("ALTER USER {{user}} WITH {limit}"),
        };
        Limit::new(limit, &[&sql], &["_PER_HOUR", "connections"])
    };
    let mut accounts =
        vec!["MAX_USER_CONNECTIONS 2", "MAX_QUERIES_PER_HOUR 400", "MAX_UPDATES_PER_HOUR 5"];
    accounts.extend(mariadb().map(|_| "MAX_STATEMENT_TIME 0.3"));
    revoked.chain(accounts.into_iter().map(account)).collect()
}

/// A user with the privileges of petal's page, and its databases, one of them loaded, with the limit.
fn limited<'a>(server: &Server, limit: &'a Limit) -> Limited<'a> {
    let name = privileges::name();
    let user = format!("{name}@localhost");
    let databases = ["empty", "loaded"].map(|which| format!("{name}_{which}"));
    let [_, loaded] = databases.each_ref().map(|database| server.url(database));
    let load = ["setup", "-s", "1", "--scale", "1024", "--scan-table-sz", "16", "--db", &loaded];
    Workplace::new().petal(load).exits(0);
    server.sql("", &format!("CREATE USER {user}"));
    for right in ELSEWHERE {
        server.sql("", &format!("GRANT {right} TO {user}"));
    }
    for database in &databases {
        server.sql("", &format!("GRANT {} ON `{database}`.* TO {user}", ON_DATABASE.join(", ")));
    }
    for (sql, database) in
        limit.sql.iter().flat_map(|sql| databases.iter().map(move |it| (sql, it)))
    {
        if sql.contains("{database}") || database.ends_with("empty") {
            server.sql("", &sql.replace("{user}", &user).replace("{database}", database));
        }
    }
    let [empty, loaded] = databases.map(|it| server.url(&it).replace("root@", &format!("{name}@")));
    Limited { limit, name, empty, loaded }
}

fn hold(server: &Server, limits: &[Limit]) -> Vec<(String, Effect)> {
    let free = limited(server, &Limit::new("nothing", &[], &[])).free();
    privileges::hold(limits, |limit| {
        let limited = limited(server, limit);
        let effect = limited.holds(&free);
        let only_reads = limit.name == "no UPDATE";
        assert!(!only_reads || !effect.refused.contains("UPDATE_PCT=0"), "{effect:?}");
        for which in ["empty", "loaded"] {
            server.sql("", &format!("DROP DATABASE {}_{which}", limited.name));
        }
        effect
    })
}

/// Settings of a whole server, each on a server of its own: at its start, or later; with the words of
/// `petal check`.
const OF_SERVERS: [(&str, &[&str], &str, &str); 7] = [
    // Managed services log every row, and keep SUPER to themselves.
    ("managed", &["log-bin", "binlog-format=ROW"], "", "SUPER"),
    ("binlog_format=STATEMENT", &["log-bin", "binlog-format=STATEMENT"], "", "BINLOG_FORMAT"),
    (
        "enforce_storage_engine=Aria",
        &[],
        "SET GLOBAL enforce_storage_engine = 'Aria'",
        "enforce_storage_engine",
    ),
    (
        "max_allowed_packet=262144",
        &[],
        "SET GLOBAL max_allowed_packet = 262144",
        "max_allowed_packet",
    ),
    (
        "max_prepared_stmt_count=0",
        &[],
        "SET GLOBAL max_prepared_stmt_count = 0",
        "max_prepared_stmt_count",
    ),
    ("read_only=ON", &["read-only=ON"], "", "--read-only"),
    ("transaction_read_only=ON", &[], "SET GLOBAL {read_only} = ON", "READ ONLY transaction"),
];

/// Each limit alone and, in the long form, settings of servers; or those of PETAL_TEST_ROWS.
#[test]
fn what_check_passes_a_run_does_on_mysql() {
    if !is_there() {
        return;
    }
    let rows = std::env::var("PETAL_TEST_ROWS").unwrap_or_else(|_| {
        "no CREATE,no UPDATE,binlog_format=STATEMENT,max_allowed_packet=262144".to_owned()
    });
    let is_tried = |name: &str| is_long() || rows.split(',').any(|row| row == name);
    let tried: Vec<Limit> = limits().into_iter().filter(|limit| is_tried(&limit.name)).collect();
    let mut effects = hold(shared(), &tried);
    // Only MariaDB can enforce a storage engine.
    let has_it = |name: &str| mariadb().is_some() || !name.starts_with("enforce");
    let servers = OF_SERVERS.into_iter().filter(|(name, ..)| is_tried(name) && has_it(name));
    for (name, settings, sql, word) in servers {
        let free = limited(shared(), &Limit::new("nothing", &[], &[])).free();
        let server = Server::start(settings);
        let read_only = if mariadb().is_some() { "tx_read_only" } else { "transaction_read_only" };
        let limit = Limit::new(name, &[&sql.replace("{read_only}", read_only)], &[word]);
        effects.push((name.to_owned(), limited(&server, &limit).holds(&free)));
    }
    if is_long() {
        privileges::write(if mariadb().is_some() { "MariaDB" } else { "MySQL" }, effects);
    }
}

#[test]
fn a_load_that_made_nothing_leaves_nothing() {
    if !is_there() {
        return;
    }
    let server = Server::start(&["read-only=ON"]);
    let user = "CREATE USER reader@localhost; GRANT ALL ON reader.* TO reader@localhost; \
                GRANT SELECT ON mysql.innodb_index_stats TO reader@localhost";
    server.sql("", user);
    let url = server.url("reader").replace("root@", "reader@");
    let ended =
        Workplace::new().petal(["setup", "-s", "1", "--scale", "1024", "--db", &url]).ends();
    assert_ne!(ended.code, Some(0));
    assert!(
        ended.stderr.contains("read-only") && !ended.stderr.contains("unfinished"),
        "{ended:?}"
    );
}
