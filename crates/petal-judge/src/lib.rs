//! Judges a record: the validity of its figures, and the limit of the run. Pure functions of a
//! [`petal_record::Run`]; nothing here knows an engine's internals, measures or prints.
//!
//! [`findings`] applies METHOD's rules, one file per family: [`physical`] (layers that served the
//! reads, by [`served`]), [`writes`] (durability, checkpoints, the log), [`limits`] (processors,
//! petal itself), [`others`] (other processes at work) and [`trust`] (is the record whole, long
//! enough, repeated). [`steady`] holds the rule for steadiness, [`verdict`] the headline,
//! [`limited_by`] its limit.
//! [`host`] judges no record but a host, before a test. [`estimate`] has the statistics of repeats
//! of one figure, [`spread`] of several groups of them, [`significance`] of a difference,
//! [`change_points`] of a figure over time; [`petals`] draws the lines of a sweep,
//! [`compare`] compares sides with each other; [`next_cell`] chooses the cells of a sweep, [`calibration`] compares a run with the calibrated
//! device, [`fresh`] finds drives that are nearly empty; [`predict`] predicts cells that were not measured; [`price`] computes the cost of delivered
//! I/O; [`server_report`] compares petal's snapshots with the database's own report;
//! [`driver_hosts`] judges the work of several driver hosts; [`delivered`] is the load that a replay
//! reached, [`profile`] the summary of a profile; [`survival`] compares a
//! ledger with the rows that exist after a power cut; [`windows`] names the time that the figures
//! of several runs cover; [`waterfall`] divides the time of an operation.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod awr;
pub mod break_point;
pub mod calibration;
mod change_points;
mod changes;
pub mod compare;
pub mod delivered;
mod driver_hosts;
mod elasticity;
pub mod estimate;
pub mod findings;
mod fresh;
pub mod host;
mod interference;
mod io_limits;
mod judgement;
mod level;
mod limited_by;
mod limits;
pub mod log_writes;
pub mod memory;
pub mod next_cell;
mod other_processors;
mod others;
pub mod outages;
pub mod petals;
mod physical;
#[cfg(any(test, feature = "testing"))]
pub mod power;
pub mod predict;
pub mod price;
pub mod profile;
pub mod read_time;
mod residence;
mod resources;
mod seeded_rng;
pub mod served;
pub mod server_report;
mod settings;
pub mod significance;
mod spread;
pub mod steady;
pub mod survival;
pub mod target;
mod trust;
pub mod verdict;
pub mod waterfall;
mod windows;
mod write_ledger;
mod writes;

/// Returns `" and 3 more"` for names that are left out of a list; empty if nothing is left out.
pub fn and_more(before: &str, left_out: usize) -> String {
    match left_out {
        0 => String::new(),
        more => format!("{before}and {} more", petal_host::numbers::whole(more as u64)),
    }
}

/// A run's length in seconds; one below a second has up to three decimals.
fn run_length(seconds: f64) -> String {
    let decimals = match seconds {
        s if s >= 1.0 => 0,
        s if s >= 0.1 => 2,
        _ => 3,
    };
    petal_host::numbers::decimal(seconds, decimals)
}

/// Values by their keys, in the order in which the keys first appear.
pub fn by_key<K: PartialEq, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// Returns each value once, in the order in which they first appear.
pub fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    by_key(values.into_iter().map(|value| (value, ())))
        .into_iter()
        .map(|(value, _)| value)
        .collect()
}

/// Words for factors, such as `UPDATE_PCT 20, BLOCK_SZ 8K`.
fn factor_words<'a>(factors: impl IntoIterator<Item = &'a (String, String)>) -> String {
    let words = factors.into_iter().map(|(key, value)| format!("{} {value}", key.to_uppercase()));
    words.collect::<Vec<_>>().join(", ")
}

pub use findings::{judge, not_judged};
pub use io_limits::nearest as nearest_io_limit;
pub use judgement::NotJudged;
pub use other_processors::{Others, at_work as others_at_work};
pub use physical::cache_share;
pub use trust::TOO_FEW_OPERATIONS;
pub use verdict::{conclude, headline, not_storage, of_one_test, tell_gaps};
