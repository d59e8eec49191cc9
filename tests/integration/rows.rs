//! What was asked of the data and what was visited: rows that go in a run, and the conservation of
//! rows over many kinds of runs.

use crate::engine_postgres::load;
use crate::server_postgres::{is_there, shared};
use crate::support::{Workplace, count, findings};

#[test]
fn a_table_that_is_emptied_in_a_run_is_an_error() {
    let work = Workplace::loaded(1, "8M");
    let mut running = work.petal(["run", "--run-time", "4", "--json"]).start();
    running.until("a second of the run", || !work.journal().is_empty());
    let writer = rusqlite::Connection::open(work.path("petal-data/petal1.db")).unwrap();
    writer.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
    writer.execute("DELETE FROM cf1", []).unwrap();
    let run = running.ends().exited(1).json();
    assert!(findings(&run).contains(&"rows-missing"), "{:?}", findings(&run));
    assert_eq!(run["status"], "complete");
}

#[test]
fn a_table_that_is_truncated_in_a_run_is_an_error() {
    if !is_there() {
        return;
    }
    for side in ["server", "client", "set"] {
        let database = format!("truncated_{side}");
        let url = shared().url(&database);
        load(&url, 1);
        let work = Workplace::new();
        let args = ["run", "--db", &url, "--run-time", "4", "--loop", side, "--json"];
        let mut running = work.petal(args).start();
        running.until("a second of the run", || !work.journal().is_empty());
        shared().client(&database).batch_execute("TRUNCATE petal1.cf1").unwrap();
        let run = running.ends().exited(1).json();
        assert!(findings(&run).contains(&"rows-missing"), "{side}: {:?}", findings(&run));
        assert!(count(&run, "/rows/select") < count(&run, "/rows_asked/select"));
    }
}
