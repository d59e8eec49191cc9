//! The log as a run's limit while sessions wait elsewhere: for locks whose holders wait for the
//! log, or for reads behind its flushes at the device.

use serde_json::{Value, json};

use super::waits::{
    LIMIT_SHARE_MIN, WAITED_SHARE_MIN, lock_s, longest_class, waited_for, waited_s,
};
use petal_host::os::requests::{RequestKind, Requests};
use petal_record::Run;
use petal_record::conclusions::{LimitedBy, Limiter};
use petal_record::counters::WaitClass;
use petal_workload::op::Kind;

/// Share of the time in which locks are held, from which on the log limits them.
const OF_HELD_TIME_MIN: f64 = 0.75;
/// Sessions that hold a lock at the same time. With fewer, others than the sessions hold it.
const HOLDERS_MIN: f64 = 0.9;
/// Share of the time that a mean UPDATE may take.
const CUT_SHARE_MAX: f64 = 0.2;
/// Share of the time with a flush in flight, of a device that flushes as fast as it can.
const FLUSHING_SHARE_MIN: f64 = 0.8;
/// Reads that wait for others take this multiple of their time without the others.
const SLOWED_MIN: f64 = 2.0;
/// The percentile of a read that waits for nobody, also if a flush is in flight for 95 % of the time.
const ALONE_PERCENTILE: f64 = 5.0;

/// Names the log, if sessions wait elsewhere because of it.
pub(super) fn behind_waits(run: &Run) -> Option<LimitedBy> {
    behind_locks(run).or_else(|| before_reads(run))
}

/// Names the log under processors that other programs keep full, if a flush was in flight for most
/// of the time: the device made sessions wait, not these programs.
pub(super) fn at_the_device(run: &Run) -> Option<LimitedBy> {
    let (_, flushing) = flushing(run)?;
    let is_log = || longest_class(run).is_some_and(|(class, _)| class == WaitClass::Commit);
    let mut limit = behind_waits(run).or_else(|| is_log().then(|| waited_for(run)))?;
    limit.evidence.insert("flush_in_flight".to_owned(), json!(flushing));
    (limit.by == Limiter::Log && flushing >= LIMIT_SHARE_MIN).then_some(limit)
}

/// Names the log, if sessions mostly wait for locks, and their holders mostly for the log.
///
/// A session with an UPDATE waits for a lock or has it. Locks for which others wait are in use all
/// the time, so that throughput is their number over the time that each is held (the utilisation
/// law, Denning and Buzen 1978). The elasticity of the log's speed is then its share of that time.
fn behind_locks(run: &Run) -> Option<LimitedBy> {
    let summary = &run.summary;
    let elapsed_s = Some(summary.elapsed_s).filter(|&s| s > 0.0)?;
    let lock_s = lock_s(run);
    let waited = run.share_of_db_time(lock_s * 1e6).filter(|&share| share >= LIMIT_SHARE_MIN)?;
    let updates = summary.latency(Kind::Update)?;
    // A lock wait ends before its UPDATE: at the end of the time some have no latency yet.
    let mean_s = updates.mean.map(|us| us / 1e6).filter(|&s| s <= elapsed_s * CUT_SHARE_MAX)?;
    let held_s = updates.count as f64 * mean_s - lock_s;
    let of_log = (waited_s(run, &[WaitClass::Commit])? / held_s).min(1.0);
    let holders = held_s / elapsed_s;
    (holders >= HOLDERS_MIN && of_log >= OF_HELD_TIME_MIN).then(|| {
        let words = format!(
            "log writes and syncs ({:.0} % of the time in locks, for which sessions wait {:.0} % of \
             DB time)",
            of_log * 100.0,
            waited * 100.0
        );
        let evidence = json!({
            "lock_share_of_db_time": waited, "log_share_of_held_time": of_log, "holders": holders,
        });
        LimitedBy::new(Limiter::Log, words, evidence)
    })
}

/// Names the log, if sessions mostly wait for reads that are behind the log's flushes.
///
/// The kernel has one flush of a hardware queue in flight (block/blk-flush.c), so that its share of
/// the time is a utilisation, near 1 if the device flushes as fast as it can. Reads wait for it if they
/// take longer than reads alone would.
fn before_reads(run: &Run) -> Option<LimitedBy> {
    let (class, waited_us) = longest_class(run)?;
    let waited = run.share_of_db_time(waited_us).filter(|&share| share >= LIMIT_SHARE_MIN)?;
    let of_log = run.share_of_db_time(waited_s(run, &[WaitClass::Commit])? * 1e6)?;
    let (device, flushing) = flushing(run)?;
    let reads = requests(run)?.service(RequestKind::Read, |name| name == device);
    let (alone_us, read_us) = (reads.percentile_us(ALONE_PERCENTILE)?, reads.summary().mean?);
    let alone_us = served_alone(alone_us, reads.count() as f64 / run.summary.elapsed_s)?;
    let is_behind = class == WaitClass::UserIo
        && flushing >= FLUSHING_SHARE_MIN
        && of_log >= WAITED_SHARE_MIN
        && read_us >= alone_us * SLOWED_MIN;
    is_behind.then(|| {
        let words = format!(
            "log writes and syncs (a flush in flight {:.0} % of the time; reads, {:.0} % of DB time, \
             wait behind it)",
            flushing.min(1.0) * 100.0,
            waited * 100.0
        );
        let evidence: Value = json!({
            "flush_in_flight": flushing, "log_share_of_db_time": of_log,
            "read_share_of_db_time": waited, "read_us": read_us, "read_alone_us": alone_us,
        });
        LimitedBy::new(Limiter::Log, words, evidence)
    })
}

/// The mean time of a request at a device that serves one at a time, with arrivals and times at
/// random: service / (1 - utilisation), more than with several at a time. None at its capacity.
fn served_alone(service_us: f64, per_second: f64) -> Option<f64> {
    let idle = 1.0 - service_us * per_second / 1e6;
    (idle > 0.0).then(|| service_us / idle)
}

/// The device under the data or the log with the most flushes in flight, and their mean number.
/// None if single requests were not timed.
fn flushing(run: &Run) -> Option<(&str, f64)> {
    let requests = requests(run)?;
    let elapsed_s = Some(run.summary.elapsed_s).filter(|&s| s > 0.0)?;
    let devices = run.database_host()?.timed_devices().into_iter().map(|device| {
        let flushes = requests.service(RequestKind::Flush, |name| name == device);
        (device, flushes.total_ns as f64 / 1e9 / elapsed_s)
    });
    devices.max_by(|a, b| a.1.total_cmp(&b.1))
}

fn requests(run: &Run) -> Option<&Requests> {
    run.database_host()?.whole.sum.requests.as_ref()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{others_fill_the_processors, waits_of};
    use super::super::{limited_by, limited_with_rate};
    use super::*;
    use WaitClass::{Application, Commit, Concurrency, UserIo};
    use petal_host::histogram::LatencySummary;
    use petal_host::os::requests::RequestTimes;
    use petal_host::os::time_buckets::TimeBuckets;
    use petal_record::fixture;
    use proptest::prelude::*;

    /// A run of UPDATEs alone, each of this mean time.
    fn updates(elapsed_s: f64, sessions: f64, mean_s: f64, waits: &[(WaitClass, f64)]) -> Run {
        let mut run = fixture::mixed_run();
        run.summary.elapsed_s = elapsed_s;
        run.details.db_time_s = elapsed_s * sessions;
        let count = (run.details.db_time_s / mean_s) as u64;
        let mean = Some(mean_s * 1e6);
        let latency = LatencySummary { count, mean, ..LatencySummary::default() };
        run.summary.latency_us = [("update".to_owned(), latency)].into();
        waits_of(&mut run, waits);
        run
    }

    #[test]
    fn a_lock_that_is_held_for_a_sync_is_a_queue_for_the_log() {
        let limited = |run: &Run| (limited_by(run).by, limited_by(run).words);
        // SQLite, 60 sessions, 5 files: with a log of 6 ms and with one of 2 ms.
        let slow =
            updates(30.0, 60.0, 0.52, &[(Concurrency, 1650.0), (Commit, 122.0), (UserIo, 97.0)]);
        let (by, words) = limited(&slow);
        assert_eq!(by, Limiter::Log);
        assert_eq!(
            words,
            "log writes and syncs (81 % of the time in locks, for which sessions wait 92 % of DB time)"
        );
        assert_eq!(limited_with_rate(&slow), words);
        let holders = limited_by(&slow).evidence["holders"].as_f64().unwrap();
        assert!((holders - 5.0).abs() < 0.1, "five files have five writers: {holders}");
        let fast =
            updates(30.0, 60.0, 0.43, &[(Concurrency, 1650.0), (Commit, 62.0), (UserIo, 137.0)]);
        assert_eq!(limited(&fast).0, Limiter::Contention);
        // Another program holds the rows: the log is most of the sessions' own time.
        let others = updates(30.0, 4.0, 0.1, &[(Application, 113.0), (Commit, 6.0)]);
        assert_eq!(limited(&others).0, Limiter::Locks);
        // The time is too short for the waits of these UPDATEs.
        let cut = updates(3.0, 60.0, 1.1, &[(Concurrency, 165.0), (Commit, 12.2)]);
        assert_eq!(limited(&cut).0, Limiter::Contention);
    }

    proptest! {
        /// Locks that are always in use give locks / (sync + other) UPDATEs per second.
        #[test]
        fn the_logs_share_of_held_time_is_its_elasticity(
            locks in 1..20_u32,
            waiting in 1.5..20.0_f64,
            sync_s in 1e-3..0.1_f64,
            other_s in 1e-4..0.1_f64,
        ) {
            let per_second = |sync_s: f64| f64::from(locks) / (sync_s + other_s);
            let sessions = f64::from(locks) * (1.0 + waiting);
            let updates_per_s = per_second(sync_s);
            let elapsed_s = 1000.0;
            let waits = [
                (Concurrency, elapsed_s * f64::from(locks) * waiting),
                (Commit, elapsed_s * updates_per_s * sync_s),
            ];
            let run = updates(elapsed_s, sessions, sessions / updates_per_s, &waits);
            let step = 1e-5_f64;
            let elasticity = (per_second(sync_s) / per_second(sync_s * step.exp())).ln() / step;
            prop_assume!((elasticity - OF_HELD_TIME_MIN).abs() > 0.01);
            let found = behind_locks(&run);
            prop_assert_eq!(found.is_some(), elasticity > OF_HELD_TIME_MIN);
            if let Some(found) = found {
                let share = found.evidence["log_share_of_held_time"].as_f64().unwrap();
                prop_assert!((share - elasticity).abs() < 0.01, "{share} and {elasticity}");
            }
        }

        #[test]
        fn a_read_among_others_takes_longer_with_more_of_them(
            service_us in 1.0..1e5_f64,
            used in 0.0..0.99_f64,
            more in 1.001..100.0_f64,
        ) {
            let per_second = used / service_us * 1e6;
            let one = served_alone(service_us, per_second).unwrap();
            prop_assert!(one >= service_us);
            let other = served_alone(service_us, per_second * more);
            prop_assert!(other.is_none_or(|other| used == 0.0 || other > one));
            prop_assert_eq!(served_alone(service_us, 1e6 / service_us * 1.001), None);
        }
    }

    /// Eight sessions of the bare device with a log of 5 ms: times of its requests in ms.
    fn flushed(flushes: (u64, f64), reads: &[(f64, u64)]) -> Run {
        let mut run = updates(3.0, 8.0, 0.074, &[(UserIo, 12.8), (Commit, 11.2)]);
        fixture::time_requests(&mut run);
        let ns = |ms: f64| (ms * 1e6) as u64;
        let buckets = |all: Vec<(u64, u64)>| TimeBuckets {
            total_ns: all.iter().map(|(ns, count)| ns * count).sum(),
            buckets: all,
        };
        let times = |kind, service| RequestTimes {
            device: "vda".into(),
            kind,
            of_database: Some(true),
            service,
            queue: TimeBuckets::default(),
            total: TimeBuckets::default(),
        };
        let reads = buckets(reads.iter().map(|&(ms, count)| (ns(ms), count)).collect());
        let requests = run.details.os.as_mut().unwrap().whole.sum.requests.as_mut().unwrap();
        requests.times = vec![
            times(RequestKind::Flush, buckets(vec![(ns(flushes.1), flushes.0)])),
            times(RequestKind::Read, reads),
        ];
        run
    }

    /// 845 reads a second, of a device that serves four at once.
    const MANY_BEHIND: [(f64, u64); 6] =
        [(0.55, 30), (0.7, 160), (0.88, 100), (1.3, 340), (5.3, 1460), (10.1, 445)];
    const BEHIND: [(f64, u64); 3] = [(1.1, 200), (5.7, 600), (21.0, 400)];

    #[test]
    fn reads_that_wait_behind_flushes_are_limited_by_the_log() {
        let limited = |run: &Run| limited_by(run).by;
        let run = flushed((215, 13.4), &BEHIND);
        let found = limited_by(&run);
        assert_eq!(found.by, Limiter::Log);
        assert_eq!(
            found.words,
            "log writes and syncs (a flush in flight 96 % of the time; reads, 53 % of DB time, wait \
             behind it)"
        );
        assert!(found.evidence["read_us"].as_f64().unwrap() > 9000.0, "{found:?}");
        assert_eq!(limited(&flushed((448, 6.3), &MANY_BEHIND)), Limiter::Log);
        // Half of the flushes: the device has time for reads between them.
        assert_eq!(limited(&flushed((107, 13.4), &BEHIND)), Limiter::Reads);
        // The device itself is slow: no read is fast.
        assert_eq!(limited(&flushed((215, 13.4), &[(9.0, 1200)])), Limiter::Reads);
        assert_eq!(limited(&flushed((215, 13.4), &[(2.0, 100), (4.0, 200)])), Limiter::Reads);
        // Reads fill the device themselves.
        assert_eq!(limited(&flushed((215, 13.4), &[(2.6, 600), (9.0, 600)])), Limiter::Reads);
        // Sessions do not wait for the log: the flushes are of the background.
        let mut background = flushed((215, 13.4), &BEHIND);
        waits_of(&mut background, &[(UserIo, 12.8), (Commit, 1.0)]);
        assert_eq!(limited(&background), Limiter::Reads);
        let mut untimed = flushed((215, 13.4), &BEHIND);
        untimed.details.os.as_mut().unwrap().whole.sum.requests = None;
        assert_eq!(limited(&untimed), Limiter::Reads);
    }

    #[test]
    fn full_processors_of_others_do_not_limit_a_log_that_flushes() {
        let limited = |flushes: (u64, f64), waits: &[(WaitClass, f64)]| {
            let mut run = flushed(flushes, &BEHIND);
            run.details.db_time_s = 3.0;
            waits_of(&mut run, waits);
            others_fill_the_processors(&mut run);
            limited_by(&run)
        };
        // SQLite, one session, a log of 5 ms.
        let found = limited((222, 7.1), &[(Commit, 1.92), (UserIo, 1.06)]);
        assert_eq!(found.by, Limiter::Log, "{found:?}");
        assert!(found.evidence["flush_in_flight"].as_f64().unwrap() > 0.5);
        assert_eq!(limited((222, 6.0), &[(Commit, 1.92)]).by, Limiter::OthersWork);
        assert_eq!(limited((222, 7.1), &[(Commit, 1.2)]).by, Limiter::OthersWork);
    }
}
