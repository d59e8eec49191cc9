//! Judges whether a run in progress has been steady long enough to end it. The rule over the newest
//! seconds: five windows of a minute, or longer ones if a checkpoint cycle is longer; on writes
//! only after a stated volume, since a fresh or idle drive takes its first writes faster.

use super::WINDOWS;
use super::sums::Sums;
use petal_record::{Second, each_second};

/// Windows are made longer by these factors to find a whole checkpoint cycle in each.
const LONGER: [f64; 5] = [1.0, 1.5, 2.0, 3.0, 5.0];

/// Conditions that let a run end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EndConditions {
    /// Length of the shortest window.
    pub window_s: f64,
    /// End of the warm-up; earlier seconds do not count.
    pub warm_up_s: f64,
    /// The run has UPDATEs: checkpoint cycles and the volume count.
    pub writes: bool,
    /// Bytes that must have been written, as data blocks and log together.
    pub volume_bytes: u64,
}

/// Returns the shortest time that can prove a run steady, in seconds from its trigger.
pub fn shortest_s(warm_up_s: f64, window_s: f64) -> f64 {
    warm_up_s + window_s * WINDOWS as f64
}

/// Returns the second from which on a timeline's newest seconds are steady, by these terms; None
/// while that is not proven. Writes or checkpoints that a database does not count prove nothing.
pub fn proven(timeline: [&[Second]; 2], terms: &EndConditions) -> Option<f64> {
    let all = || timeline.into_iter().flatten();
    let to_s = all().next_back()?.end_s();
    if terms.writes && written_bytes(all())? < terms.volume_bytes {
        return None;
    }
    let sums = Sums::of(each_second(all()));
    let begins = LONGER.iter().map(|factor| to_s - terms.window_s * WINDOWS as f64 * factor);
    let mut windows = begins
        .take_while(|from_s| *from_s >= terms.warm_up_s)
        .map(|from_s| (from_s, sums.windows(from_s, to_s)));
    // The shortest windows with whole cycles: longer ones would hide a recent fall.
    let (from_s, windows) =
        windows.find(|(_, windows)| !terms.writes || windows.have_cycles() == Some(true))?;
    (windows.is_steady() && windows.mean() > 0.0).then_some(from_s)
}

/// Data blocks and log that the database has written, at least: a second without them adds nothing.
/// None if no second has them.
pub fn written_bytes<'a>(timeline: impl IntoIterator<Item = &'a Second>) -> Option<u64> {
    let reported = timeline.into_iter().filter_map(|second| {
        let io = second.io?;
        Some(io.physical_write_bytes? + io.redo_bytes?)
    });
    reported.reduce(|sum, bytes| sum + bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::Ops;
    use petal_record::counters::IoCounts;
    use proptest::prelude::*;

    const READS: EndConditions =
        EndConditions { window_s: 60.0, warm_up_s: 0.0, writes: false, volume_bytes: 0 };
    const MB: u64 = 1_000_000;

    /// 1 MB of data and 1 MB of log a second, a checkpoint every `checkpoint_every` seconds.
    fn timeline(rates: &[u64], checkpoint_every: u64) -> Vec<Second> {
        (0..)
            .zip(rates)
            .map(|(at, &total)| Second {
                from_s: at as f64,
                length_s: 1.0,
                ops: Ops { total, ..Ops::default() },
                io: Some(IoCounts {
                    physical_write_bytes: Some(MB),
                    redo_bytes: Some(MB),
                    ..IoCounts::default()
                }),
                checkpoints: Some(u64::from(at % checkpoint_every == checkpoint_every - 1)),
                ..Second::default()
            })
            .collect()
    }

    /// The second at which a run like this would end.
    fn ends_at(seconds: &[Second], terms: &EndConditions) -> Option<usize> {
        (1..=seconds.len()).find(|&now| proven([&seconds[..now], &[]], terms).is_some())
    }

    #[test]
    fn a_flat_run_ends_after_five_minutes_and_the_warm_up() {
        let flat = timeline(&[1000; 900], 20);
        assert_eq!(ends_at(&flat, &READS), Some(300));
        assert_eq!(ends_at(&flat, &EndConditions { warm_up_s: 60.0, ..READS }), Some(360));
        assert_eq!(proven([&flat[..300], &[]], &READS), Some(0.0));
    }

    #[test]
    fn a_cliff_delays_it_until_five_steady_minutes_lie_behind_it() {
        let rates: Vec<u64> = [vec![2000; 200], vec![1000; 700]].concat();
        let end = ends_at(&timeline(&rates, 20), &READS).unwrap();
        // The first window may hold a little of the time before.
        assert!((480..=500).contains(&end), "{end}");
    }

    #[test]
    fn longer_windows_do_not_hide_a_cliff_just_before_the_volume() {
        let rates: Vec<u64> = [vec![1000; 1500], vec![450; 900]].concat();
        let writes =
            EndConditions { window_s: 60.0, warm_up_s: 0.0, writes: true, volume_bytes: 3120 * MB };
        let end = ends_at(&timeline(&rates, 20), &writes).unwrap();
        assert!((1780..=1800).contains(&end), "{end}");
        let reads = EndConditions { writes: false, ..writes };
        assert_eq!(proven([&timeline(&rates, 20)[..1560], &[]], &reads), None);
    }

    #[test]
    fn writes_must_reach_the_volume_and_whole_checkpoint_cycles() {
        let writes = EndConditions { writes: true, volume_bytes: 800 * MB, ..READS };
        assert_eq!(ends_at(&timeline(&[1000; 900], 20), &writes), Some(400));
        // A checkpoint every 110 s does not fit into windows of a minute, but into two minutes.
        let small = EndConditions { volume_bytes: MB, ..writes };
        assert_eq!(ends_at(&timeline(&[1000; 900], 110), &small), Some(600));
        // A checkpoint that never ends proves nothing.
        assert_eq!(ends_at(&timeline(&[1000; 900], 100_000), &small), None);
        // A missed second does not invalidate the others; without any, nothing is proven.
        let mut unknown = timeline(&[1000; 900], 20);
        (unknown[10].io, unknown[10].checkpoints) = (None, None);
        assert_eq!(ends_at(&unknown, &writes), Some(401));
        unknown.iter_mut().for_each(|second| second.checkpoints = None);
        assert_eq!(ends_at(&unknown, &small), None);
        let mut unknown = timeline(&[1000; 900], 20);
        unknown.iter_mut().for_each(|second| second.io = None);
        assert_eq!(ends_at(&unknown, &small), None);
        assert_eq!(ends_at(&unknown, &READS), Some(300));
    }

    proptest! {
        // Each case asks at every second of 900.
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn a_drifting_rate_is_never_proven_steady(drift in 0.5f64..0.9, from in 5_000f64..50_000.0) {
            let rates: Vec<u64> =
                (0..900).map(|at| (from * (1.0 - drift * f64::from(at) / 900.0)) as u64).collect();
            prop_assert_eq!(ends_at(&timeline(&rates, 20), &READS), None);
        }
    }
}
