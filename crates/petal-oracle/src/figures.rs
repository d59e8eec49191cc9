//! The figures as a table: the statistic or event of each, and the reason where it is unknown. The page of
//! Oracle Database is written from it.

use std::collections::BTreeMap;

use super::counters::{LOG_EVENT, READ_EVENT, WRITE_EVENT};
use petal_engine::server::figure_table::CountUnit::{Blocks, Bytes, Count, Requests};
use petal_engine::server::figure_table::{
    CountUnit, FigureEntry, FigureKind, FigureNeed, FigureSource, FigureTable, Look, MICROSECOND,
    ServerVersion, VersionRange, View, Work,
};
use petal_record::counters::{CommonCounter, WaitClass};

const PRODUCT: &str = "Oracle Database";
/// Every release that petal supports has all of them.
const ALL: &[VersionRange] = &[VersionRange::new(PRODUCT, 12, u32::MAX)];
pub const VERSION: ServerVersion = ServerVersion { product: PRODUCT, number: 19 };

const STATISTICS: &str = "gv$sysstat";
const EVENTS: &str = "gv$system_event";
const LOGS: &str = "v$log";

/// Background processes write for a pluggable database in the root.
pub const ALL_WRITES: FigureNeed = "the root, or no containers";

/// The view of each section of `counters.sql` whose figures are in the table.
pub fn view_of(section: &str) -> &str {
    match section {
        "statistics" => STATISTICS,
        "events" => EVENTS,
        "log_switches" => LOGS,
        other => other,
    }
}

const fn view(
    name: &'static str,
    columns: &'static [(&'static str, &'static str)],
    source: &'static str,
    grant: &'static str,
) -> View {
    View { name, versions: ALL, columns, source, grant }
}

const VIEWS: &[View] = &[
    view(
        STATISTICS,
        &[
            ("session logical reads", ""),
            ("physical reads", ""),
            ("physical read IO requests", ""),
            ("physical read bytes", ""),
            ("physical writes", ""),
            ("physical write IO requests", ""),
            ("physical write bytes", ""),
            ("redo size", ""),
            ("user commits", ""),
            ("redo synch writes", ""),
            ("background checkpoints completed", ""),
            ("table fetch continued row", ""),
            ("cleanouts only - consistent read gets", ""),
            ("physical reads cache", ""),
            ("physical reads cache prefetch", ""),
        ],
        "FROM gv$sysstat",
        "SELECT ON sys.gv_$sysstat",
    ),
    view(
        EVENTS,
        &[(READ_EVENT, ""), (WRITE_EVENT, ""), (LOG_EVENT, "")],
        "FROM gv$system_event",
        "SELECT ON sys.gv_$system_event",
    ),
    view(LOGS, &[("sequence#", "")], "FROM v$log", "SELECT ON sys.v_$log"),
];

const fn source(
    terms: &'static [(&'static str, i64)],
    unit: CountUnit,
    needs: &'static [FigureNeed],
) -> FigureSource {
    FigureSource { versions: ALL, terms, time: None, unit, work: Work::Server, needs }
}

const fn io(name: &'static str, unit: CountUnit, sources: &'static [FigureSource]) -> FigureEntry {
    FigureEntry { name, kind: FigureKind::Io, unit, sources, holes: &[], stand_in: "" }
}

const fn counter(counter: CommonCounter, sources: &'static [FigureSource]) -> FigureEntry {
    let (name, kind) = (counter.name(), FigureKind::Counter);
    FigureEntry { name, kind, unit: Count, sources, holes: &[], stand_in: "" }
}

const fn wait(
    name: &'static str,
    class: WaitClass,
    sources: &'static [FigureSource],
) -> FigureEntry {
    let kind = FigureKind::Wait(class);
    FigureEntry { name, kind, unit: Count, sources, holes: &[], stand_in: "" }
}

macro_rules! statistic {
    ($name:literal, $unit:ident, $needs:expr) => {
        &[source(&[(concat!("gv$sysstat.", $name), 1)], $unit, $needs)]
    };
}

macro_rules! event {
    ($name:literal, $needs:expr) => {
        &[FigureSource {
            time: Some((concat!("gv$system_event.", $name, "_us"), MICROSECOND)),
            ..source(&[(concat!("gv$system_event.", $name), 1)], Count, $needs)
        }]
    };
}

const FIGURES: &[FigureEntry] = &[
    io("logical_reads", Blocks, statistic!("session logical reads", Blocks, &[])),
    io("physical_read_blocks", Blocks, statistic!("physical reads", Blocks, &[])),
    io("physical_read_requests", Requests, statistic!("physical read IO requests", Requests, &[])),
    io("physical_read_bytes", Bytes, statistic!("physical read bytes", Bytes, &[])),
    io("physical_write_blocks", Blocks, statistic!("physical writes", Blocks, &[ALL_WRITES])),
    io(
        "physical_write_requests",
        Requests,
        statistic!("physical write IO requests", Requests, &[ALL_WRITES]),
    ),
    io("physical_write_bytes", Bytes, statistic!("physical write bytes", Bytes, &[ALL_WRITES])),
    io("redo_bytes", Bytes, statistic!("redo size", Bytes, &[])),
    io("commits", Count, statistic!("user commits", Count, &[])),
    io("log_syncs", Count, statistic!("redo synch writes", Count, &[])),
    counter(
        CommonCounter::Checkpoints,
        statistic!("background checkpoints completed", Count, &[ALL_WRITES]),
    ),
    counter(CommonCounter::LogSwitches, &[source(&[("v$log.sequence#", 1)], Count, &[])]),
    counter(CommonCounter::RowsFollowed, statistic!("table fetch continued row", Count, &[])),
    counter(
        CommonCounter::BlocksCleaned,
        statistic!("cleanouts only - consistent read gets", Count, &[]),
    ),
    counter(CommonCounter::BlocksCached, statistic!("physical reads cache", Count, &[])),
    counter(
        CommonCounter::BlocksPrefetched,
        statistic!("physical reads cache prefetch", Count, &[]),
    ),
    FigureEntry {
        stand_in: "Exadata: `cell single block physical read`",
        ..wait(READ_EVENT, WaitClass::UserIo, event!("db file sequential read", &[]))
    },
    wait(WRITE_EVENT, WaitClass::SystemIo, event!("db file parallel write", &[ALL_WRITES])),
    wait(LOG_EVENT, WaitClass::SystemIo, event!("log file parallel write", &[ALL_WRITES])),
];

pub static TABLE: FigureTable = FigureTable {
    has_all_columns: false,
    views: VIEWS,
    figures: FIGURES,
    needs: &[(
        ALL_WRITES,
        "inside a pluggable database the views may miss the work of DBWR and LGWR; name a common user of the \
         root (DBA_PRIV_USER, ADMIN_SQLNET_SERVICE)",
    )],
};

/// Counters of one instance, by `view.column`.
#[derive(Default)]
pub struct CountedColumns(BTreeMap<String, u64>);

impl CountedColumns {
    pub fn statistic(&mut self, name: &str, value: u64) {
        self.0.insert(format!("{STATISTICS}.{name}"), value);
    }

    pub fn log_sequence(&mut self, value: u64) {
        self.0.insert(format!("{LOGS}.sequence#"), value);
    }

    pub fn event(&mut self, name: &str, waits: u64, time_us: u64) {
        self.0.insert(format!("{EVENTS}.{name}"), waits);
        self.0.insert(format!("{EVENTS}.{name}_us"), time_us);
    }

    /// The look of a reading. An event that never occurred is in no view, and no reason for an unknown
    /// figure, if the view was read.
    pub fn look<T>(
        mut self,
        refused: &BTreeMap<String, String>,
        is_pluggable: bool,
        then: impl FnOnce(Look<'_>) -> T,
    ) -> T {
        for event in [READ_EVENT, WRITE_EVENT, LOG_EVENT] {
            if !refused.contains_key(EVENTS) && !self.0.contains_key(&format!("{EVENTS}.{event}")) {
                self.event(event, 0, 0);
            }
        }
        let unmet: &[FigureNeed] = if is_pluggable { &[ALL_WRITES] } else { &[] };
        let (table, version, block_bytes) = (&TABLE, VERSION, None);
        then(Look { table, version, block_bytes, raw: &self.0, refused, unmet })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_engine::server::figure_table::check_page;

    #[test]
    fn each_figure_has_in_each_release_a_source_or_a_reason() {
        let releases =
            [12, 18, 19, 21, 23].map(|number| ServerVersion { product: PRODUCT, number });
        assert_eq!(TABLE.faults(&releases), [""; 0]);
    }

    #[test]
    fn the_page_shows_the_table() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/engines/oracle.md");
        check_page(page.as_ref(), &TABLE.page(|number| format!("{number}.2")));
    }

    #[test]
    fn an_unknown_figure_has_a_reason() {
        let mut columns = CountedColumns::default();
        columns.statistic("physical writes", 7);
        let refused = BTreeMap::from([("v$log".to_owned(), "ORA-00942".to_owned())]);
        let (io, reasons) = columns.look(&refused, true, |look| (look.io(), look.reasons()));
        assert_eq!(io.physical_write_blocks, None);
        assert!(reasons["physical_write_blocks"].starts_with("inside a pluggable database"));
        assert_eq!(reasons["log_switches"], "ORA-00942");
        assert!(!reasons.contains_key(READ_EVENT), "it never occurred");
    }
}
