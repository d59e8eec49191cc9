//! Other users' code in MySQL and MariaDB, which petal's statements must not enter, and limits of
//! users and servers by which a load or a run would fail after its work.

use std::thread;

use crate::mysql::load;
use crate::server_mysql::{Server, is_there, shared};
use crate::support::{Workplace, until};

#[test]
fn another_body_of_the_routine_is_replaced_and_others_code_on_tables_refused() {
    if !is_there() {
        return;
    }
    let server = shared();
    let url = server.url("lent");
    load(&url, 1);
    let work = Workplace::new();
    let run = |code| work.petal(["run", "--db", &url, "--work-loop", "5"]).exits(code);
    run(0);
    let evil = "CREATE TABLE trap (who VARCHAR(99)); DROP PROCEDURE petal1_run;\nDELIMITER //\n\
                CREATE PROCEDURE petal1_run(IN runs LONGTEXT, IN firsts LONGTEXT, \
                IN fillers LONGTEXT, IN width INT, IN step INT, IN budget_us BIGINT) \
                MODIFIES SQL DATA SQL SECURITY INVOKER COMMENT 'loop of petal, version 5' \
                BEGIN INSERT INTO trap VALUES (CURRENT_USER()); SELECT '', ''; END//\n";
    server.script("lent", evil).unwrap();
    run(0);
    assert!(server.sql("lent", "SELECT who FROM trap").is_empty());
    let text = "SELECT COUNT(*) FROM information_schema.routines WHERE routine_schema = 'lent' \
                AND routine_definition LIKE '%trap%'";
    assert_eq!(server.sql("lent", text), [["0"]]);
    for (made, named, gone) in [
        (
            "RENAME TABLE petal1_cf1 TO kept; CREATE VIEW petal1_cf1 AS SELECT * FROM kept",
            "petal1_cf1 is a view",
            "DROP VIEW petal1_cf1; RENAME TABLE kept TO petal1_cf1",
        ),
        (
            "CREATE TRIGGER evil BEFORE UPDATE ON petal1_cf1 FOR EACH ROW SET @x = 1",
            "petal1_cf1 has trigger evil",
            "DROP TRIGGER evil",
        ),
        // Its reads are in none of InnoDB's counters.
        (
            "ALTER TABLE petal1_cf2 ENGINE=MyISAM",
            "petal1_cf2 is a table of MyISAM",
            "ALTER TABLE petal1_cf2 ENGINE=InnoDB",
        ),
    ] {
        server.sql("lent", made);
        run(3).telling(&[named, "remove it"]);
        server.sql("lent", gone);
    }
    run(0);
}

#[test]
fn an_administrator_runs_nothing_where_a_lesser_user_may_make_code() {
    if !is_there() {
        return;
    }
    let server = shared();
    let url = server.url("shared_space");
    load(&url, 1);
    let work = Workplace::new();
    let run = |url: &str| work.petal(["run", "--db", url, "--work-loop", "5", "--loop", "client"]);
    let space = "`shared\\_space`.*";
    let grant = |what: &str, on: &str| format!("GRANT {what} ON {on} TO tenant@'%'");
    let work_rights = grant("SELECT, INSERT, UPDATE, EXECUTE", space);
    server.sql("", &format!("CREATE USER tenant@'%'; {work_rights}"));
    run(&url).exits(0);
    let one_table = "shared_space.petal1_cf2";
    for (right, on) in
        [("CREATE ROUTINE", space), ("CREATE VIEW", space), ("CREATE VIEW", one_table)]
    {
        server.sql("", &grant(right, on));
        let words = ["'tenant'@'%' has", right, "rights on this database only"];
        run(&url).exits(3).telling(&words);
        work.petal(["check", "--db", &url]).ends().telling(&words);
        // The user's own code runs with no more than its own rights.
        run(&url.replace("root@", "tenant@")).exits(0);
        server.sql("", &grant(right, on).replace("GRANT", "REVOKE").replace(" TO ", " FROM "));
    }
    run(&url).exits(0);
    server.sql("", "DROP USER tenant@'%'");
}

#[test]
fn limits_of_users_and_servers_neither_end_a_load_nor_are_found_after_it() {
    if !is_there() {
        return;
    }
    let server = Server::start(&["max-allowed-packet=16K", "innodb-log-file-size=64M"]);
    let url = server.url("limited");
    let work = Workplace::new();
    let setup = ["setup", "--db", &url, "--scale", "16M", "--block-sz", "16K", "--replace"];
    let setup = [&setup[..], &["--obfuscate-columns", "TRUE"]].concat();
    work.petal(&setup).exits(3).telling(&["max_allowed_packet=16384", "SET GLOBAL"]);
    assert!(server.sql("limited", "SHOW TABLES").is_empty());
    server.sql("", "SET GLOBAL max_allowed_packet = 1048576");
    let limits = "sql_select_limit = 1, GLOBAL sql_big_selects = 0, GLOBAL max_join_size = 10, \
                  GLOBAL sql_safe_updates = 1, GLOBAL completion_type = 2, \
                  GLOBAL optimizer_switch = 'mrr=on,mrr_cost_based=off'";
    server.sql("", &format!("SET GLOBAL {limits}"));
    if server.sql("", "SELECT VERSION()")[0][0].contains("MariaDB") {
        server.sql("", "SET GLOBAL enforce_storage_engine = 'MyISAM'");
        work.petal(&setup).exits(3).telling(&["enforce_storage_engine = NULL"]);
        server.sql("", "SET GLOBAL enforce_storage_engine = NULL");
        let user = "CREATE USER brief@localhost; \
                    GRANT ALL ON *.* TO brief@localhost WITH MAX_STATEMENT_TIME 0.05";
        server.sql("", user);
    } else {
        server.sql("", "CREATE USER brief@localhost; GRANT ALL ON *.* TO brief@localhost");
    }
    let brief = url.replace("root@", "brief@");
    let setup: Vec<&str> = setup.iter().map(|&arg| if arg == url { &brief } else { arg }).collect();
    work.petal(&setup).exits(0);
    // A call of a thousand UPDATEs of whole rows would not fit.
    let run =
        ["run", "--db", &url, "--work-loop", "600", "--work-unit", "1", "--update-pct", "100"];
    work.petal([&run[..], &["--redo-stress", "heavy"]].concat()).exits(0);
    // Nor does the server's limit of statements end operations.
    let limit = match server.sql("", "SELECT VERSION()")[0][0].contains("MariaDB") {
        true => ["max_statement_time = 0.001", "max_statement_time = 0"],
        false => ["max_execution_time = 1", "max_execution_time = 0"],
    };
    server.sql("", &format!("SET GLOBAL {}", limit[0]));
    for side in ["server", "client"] {
        let run = ["run", "--db", &url, "--work-loop", "50", "--work-unit", "1024", "--loop", side];
        work.petal(run).exits(0);
    }
    server.sql("", &format!("SET GLOBAL {}", limit[1]));
    // Nor does a limit end the statements before a run, which may wait for much longer.
    thread::scope(|scope| {
        scope.spawn(|| server.sql("limited", "LOCK TABLES petal1_cf1 WRITE; SELECT SLEEP(2)"));
        let sleeping =
            "SELECT COUNT(*) FROM information_schema.processlist WHERE info = 'SELECT SLEEP(2)'";
        until("the lock", || server.sql("", sleeping)[0][0] == "1");
        let run = run.map(|arg| if arg == url { brief.as_str() } else { arg });
        work.petal([&run[..], &["--redo-stress", "lite"]].concat()).exits(0);
    });
}
