//! Throughput of a run with other processors, limits, latencies or sessions. Plain laws only: an
//! operation's times and demands as the run counted them, the bound of each resource, and a closed
//! network of the sessions and the processors (Lazowska and others, *Quantitative System
//! Performance*, 1984). A change whose assumption the record contradicts is refused; an unknown
//! figure is unknown.
//!
//! [`work`] has a run's operation and its bounds, [`cache`] another cache, [`changes`] all changes, [`text`]
//! shows them, and the predictions of cells, which are [`petal_judge::predict`]'s.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod cache;
mod changes;
pub mod text;
mod work;

use serde::Serialize;

use cache::CacheEffect;
pub use changes::AskedChanges;
use petal_record::Run;
pub use work::OperationsBound;
use work::{IO_LIMIT, OperationWork, RATE};

/// A run with the changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WhatIf {
    /// The run's folder or file.
    pub record: String,
    pub changes: Vec<String>,
    /// Reasons why nothing is predicted; empty with a prediction.
    pub refused: Vec<String>,
    pub sessions: u32,
    pub measured_ops: Option<f64>,
    pub measured_piops: Option<f64>,
    pub bounds: Vec<OperationsBound>,
    pub ops: Option<f64>,
    pub piops: Option<f64>,
    /// The bound that is the lowest with the changes.
    pub limited_by: Option<String>,
    /// True if the run was held by a limit that the changes lift: time that it waited there in
    /// unknown places is missing, and the prediction is the most that is possible.
    pub is_upper_bound: bool,
}

/// Predicts a run with changes.
pub fn what_if(record: &str, run: &Run, asked: &AskedChanges) -> WhatIf {
    let headline = run.headline_window();
    let run = &headline.run;
    let answer = WhatIf {
        record: record.to_owned(),
        changes: asked.words(),
        sessions: run.summary.sessions,
        measured_ops: run.summary.per_second.ops,
        measured_piops: run.summary.piops(),
        ..WhatIf::default()
    };
    let work = match OperationWork::of(run) {
        Ok(work) => work,
        Err(why) => return WhatIf { refused: vec![why], ..answer },
    };
    let (changed, refused) = work.with(run, asked, CacheEffect::MIDDLE);
    let bounds = work.bounds(&changed);
    let answer = WhatIf { bounds, refused, ..answer };
    if !answer.refused.is_empty() {
        return answer;
    }
    let Some((lowest, ops)) = work::lowest(&answer.bounds) else { return answer };
    let checked = work.refuse_idle(&lowest.of).and_then(|()| work.refuse_unknown_time(&lowest.of));
    let checked = checked.and_then(|()| match asked.cache {
        Some(_) => cache::refuse_unlike(run, |effect| work.ops_with(run, asked, effect)),
        None => Ok(()),
    });
    if let Err(why) = checked {
        return WhatIf { refused: vec![why], ..answer };
    }
    let is_upper_bound = match work.held.as_deref() {
        None | Some(RATE) => false,
        Some(IO_LIMIT) => lowest.of != IO_LIMIT || lowest.changed > lowest.now,
        Some(held) => lowest.of != held,
    };
    let requests = run.summary.piops().map(|piops| piops / work.ops * changed.requests);
    WhatIf {
        ops: Some(ops),
        piops: requests.map(|requests| ops * requests),
        limited_by: Some(lowest.of.clone()),
        is_upper_bound,
        ..answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::counters::{WaitClass, WaitSource};
    use petal_record::{WaitRow, fixture};
    use serde_json::json;

    #[test]
    fn changes_that_the_record_contradicts_are_refused() {
        let run = fixture::mixed_run();
        let asked = AskedChanges {
            rate: Some(2.0),
            io_limit: Some(2.0),
            sessions: Some(1000),
            ..AskedChanges::default()
        };
        let found = what_if("run", &run, &asked);
        assert_eq!(found.changes, ["io-limit 2x", "rate 2x", "sessions 1000"]);
        assert_eq!(found.refused.len(), 3, "{:?}", found.refused);
        assert_eq!((found.ops, found.piops), (None, None));
        let slower = AskedChanges { read_latency: Some(2.0), ..AskedChanges::default() };
        let mut locked = run.clone();
        locked.summary.steady = None;
        locked.summary.waits.push(WaitRow {
            name: "writer lock".to_owned(),
            class: WaitClass::Concurrency,
            source: WaitSource::Counted,
            waits: None,
            time_us: locked.details.db_time_s * 0.3e6,
            avg_us: None,
        });
        let found = what_if("run", &locked, &slower);
        assert!(found.refused[0].contains("% of DB time for locks"), "{found:?}");
        let mut deep = run;
        deep.summary.settings.insert("io_depth".to_owned(), json!(16));
        let found = what_if("run", &deep, &slower);
        assert!(found.refused[0].starts_with("a session has several requests in flight"));
    }

    #[test]
    fn a_run_at_its_rate_follows_the_rate_until_its_sessions_are_full() {
        let mut run = fixture::mixed_run();
        let ops = run.headline_window().run.summary.per_second.ops.unwrap();
        run.summary.settings.insert("rate".to_owned(), json!(ops));
        let at = |by| {
            let asked = AskedChanges { rate: Some(by), ..AskedChanges::default() };
            what_if("run", &run, &asked)
        };
        let half = at(0.5);
        assert!((half.ops.unwrap() / ops - 0.5).abs() < 1e-9, "{half:?}");
        assert_eq!(half.limited_by.as_deref(), Some(RATE));
        assert!((half.piops.unwrap() / half.measured_piops.unwrap() - 0.5).abs() < 1e-9);
        let much = at(1000.0);
        assert_ne!(much.limited_by.as_deref(), Some(RATE));
        assert!(much.ops.unwrap() < 1000.0 * ops && !much.is_upper_bound, "{much:?}");
    }
}
