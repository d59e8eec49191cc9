//! Advice: what to change in MySQL or MariaDB where a finding asks for it: sentences for the record,
//! by which reports advise without knowing the engine.

use crate::stats::target::Advice;

pub fn advice() -> Advice {
    Advice {
        enlarge_log: Some(
            "Make the redo log larger (innodb_log_file_size; MySQL 8.0.30 and later: \
             innodb_redo_log_capacity), and let pages be flushed faster (innodb_io_capacity: its \
             default of 200 throttles any flash storage)."
                .to_owned(),
        ),
        keep_cached: Some(
            "Make innodb_buffer_pool_size larger than tables and indexes, and read them once \
             before the run (WARM_UP)."
                .to_owned(),
        ),
        find_others: Some(
            "Repeat it alone on the server; SHOW PROCESSLIST tells who else works there."
                .to_owned(),
        ),
        ..Advice::default()
    }
}
