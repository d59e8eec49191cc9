//! A profile of a server's counters, read at the ends of intervals.

use super::parts::SourcePart;
use petal_host::numbers::decimal;
use petal_record::profile::{Clock, Input, ProfileInterval, time_text};
use petal_record::server_work::{ServerWork, WorkCount, WorkTime};
use time::PrimitiveDateTime;

/// A snapshot of all servers: its time, and their work until then.
#[derive(Debug, Clone)]
pub struct WorkSnapshot {
    /// UTC, by this host's clock.
    pub at: PrimitiveDateTime,
    /// Time of a monotonic clock.
    pub elapsed_s: f64,
    /// Counts, or the reason why they could not be read.
    pub work: Result<Vec<ServerWork>, String>,
}

/// A clock that moves otherwise than time does was set.
const CLOCK_SLACK_S: f64 = 2.0;

/// The part of a profile that looks at one URL give.
pub fn part(name: &str, looks: &[WorkSnapshot]) -> SourcePart {
    let known: Vec<&ServerWork> =
        looks.iter().filter_map(|look| look.work.as_ref().ok()?.first()).collect();
    let mut input = Input { name: name.to_owned(), kind: "server".to_owned(), ..Input::default() };
    if let Some(first) = known.first() {
        input.database = Some(name.to_owned());
        input.host = Some(first.endpoint.clone());
        input.sources = first.sources.clone();
        input.gaps = first.gaps.clone();
        input.notes.push(first.product.clone());
    }
    let mut intervals = Vec::new();
    for pair in looks.windows(2) {
        let [earlier, later] = pair else { continue };
        match interval(earlier, later) {
            Ok(interval) => intervals.push(interval),
            Err(why) => input.notes.push(format!("{}: {why}", time_text(earlier.at))),
        }
        let by_clock_s = (later.at - earlier.at).as_seconds_f64();
        let set_s = by_clock_s - (later.elapsed_s - earlier.elapsed_s);
        if set_s.abs() > CLOCK_SLACK_S {
            let way = if set_s < 0.0 { "back" } else { "forward" };
            input.notes.push(format!(
                "{}: this host's clock was set {way} by {} s; lengths are not by it",
                time_text(later.at),
                decimal(set_s.abs(), 0)
            ));
        }
    }
    let block_bytes = known.first().and_then(|work| work.block_bytes);
    SourcePart { input, clock: Clock::Utc, block_bytes, intervals, ..SourcePart::default() }
}

fn interval(earlier: &WorkSnapshot, later: &WorkSnapshot) -> Result<ProfileInterval, String> {
    let (then, now) = (earlier.work.as_ref()?, later.work.as_ref()?);
    let length_s = later.elapsed_s - earlier.elapsed_s;
    if length_s <= 0.0 {
        return Err("no time passed between two looks".to_owned());
    }
    let mut interval = ProfileInterval {
        begin: Some(time_text(earlier.at)),
        length_s,
        ..ProfileInterval::default()
    };
    let pairs: Vec<(&ServerWork, &ServerWork)> = now
        .iter()
        .filter_map(|now| Some((then.iter().find(|then| then.endpoint == now.endpoint)?, now)))
        .collect();
    if pairs.len() != then.len() || pairs.len() != now.len() {
        return Err("not every server answered at both ends: no figures".to_owned());
    }
    for (then, now) in &pairs {
        let fell = now
            .counts
            .iter()
            .any(|(figure, value)| then.counts.get(figure).is_some_and(|before| before > value));
        let fell = fell
            || now.times.iter().any(|(figure, (count, ns))| {
                then.times.get(figure).is_some_and(|then| then.0 > *count || then.1 > *ns)
            });
        if fell || then.counted_since != now.counted_since {
            let what = "started again, or its statistics were reset: no figures";
            return Err(format!("{} {what}", now.endpoint));
        }
    }
    for figure in WorkCount::ALL {
        // A standby has no own commits: a count that no server has is left out, the others are
        // added.
        let grown = pairs
            .iter()
            .filter_map(|(then, now)| Some(now.counts.get(&figure)? - then.counts.get(&figure)?));
        if let Some(sum) = grown.reduce(|sum, one| sum + one) {
            interval.per_second.insert(figure, sum as f64 / length_s);
        }
    }
    for figure in WorkTime::ALL {
        let mut sums = (0_u64, 0_u64);
        for (then, now) in &pairs {
            let (Some(then), Some(now)) = (then.times.get(&figure), now.times.get(&figure)) else {
                continue;
            };
            sums.0 += now.0 - then.0;
            sums.1 += now.1 - then.1;
        }
        if sums.0 > 0 {
            interval.latency_us.insert(figure, sums.1 as f64 / 1e3 / sums.0 as f64);
        }
    }
    Ok(interval)
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    fn look(elapsed_s: f64, reads: u64, since: &str) -> WorkSnapshot {
        let mut work = ServerWork {
            endpoint: "db".to_owned(),
            counted_since: since.to_owned(),
            ..ServerWork::default()
        };
        work.count(WorkCount::SingleBlockReads, Some(reads), "view");
        work.time(WorkTime::SingleBlockRead, Some((reads, reads * 50_000)), "view");
        let at = datetime!(2026-11-22 10:00:00) + time::Duration::seconds_f64(elapsed_s);
        WorkSnapshot { at, elapsed_s, work: Ok(vec![work]) }
    }

    #[test]
    fn counters_become_rates_and_latencies() {
        let part =
            part("db", &[look(0.0, 1000, "x"), look(10.0, 3000, "x"), look(20.0, 3500, "x")]);
        let rates: Vec<f64> =
            part.intervals.iter().map(|it| it.per_second[&WorkCount::SingleBlockReads]).collect();
        assert_eq!(rates, [200.0, 50.0]);
        assert_eq!(part.intervals[1].begin.as_deref(), Some("2026-11-22T10:00:10"));
        assert_eq!(part.intervals[0].latency_us[&WorkTime::SingleBlockRead], 50.0);
        assert_eq!(part.input.sources["single_block_reads"], "view");
    }

    #[test]
    fn a_restart_a_reset_and_a_silent_server_are_gaps() {
        let looks = [look(0.0, 1000, "x"), look(10.0, 20, "x"), look(20.0, 5000, "y")];
        let restarted = part("db", &looks);
        assert!(restarted.intervals.is_empty());
        assert!(restarted.input.notes[1].contains("started again"), "{:?}", restarted.input.notes);
        assert!(restarted.input.notes[2].contains("started again"));
        let silent = WorkSnapshot { work: Err("gone".to_owned()), ..look(10.0, 0, "x") };
        let part = part(
            "db",
            &[look(0.0, 1000, "x"), silent, look(20.0, 5000, "x"), look(30.0, 6000, "x")],
        );
        assert_eq!(part.intervals.len(), 1);
        assert!(part.input.notes.iter().any(|note| note.ends_with("gone")));
    }

    #[test]
    fn times_that_fell_are_a_gap_and_no_latency_of_zero() {
        let mut truncated = look(10.0, 3000, "x");
        let times = truncated.work.as_mut().unwrap()[0].times.values_mut();
        times.for_each(|time| *time = (10, 50_000));
        let part = part("db", &[look(0.0, 1000, "x"), truncated]);
        assert!(part.intervals.is_empty(), "{:?}", part.intervals);
    }

    #[test]
    fn a_clock_set_back_moves_no_length() {
        let mut second = look(10.0, 2000, "x");
        second.at -= time::Duration::hours(1);
        let part = part("db", &[look(0.0, 1000, "x"), second]);
        assert_eq!(part.intervals[0].length_s, 10.0);
        assert!(part.input.notes[1].contains("set back by 3,600 s"), "{:?}", part.input.notes);
    }
}
