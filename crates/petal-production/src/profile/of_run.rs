//! A profile of a run of petal's own, from the database's counters second by second.

use std::collections::BTreeMap;

use time::PrimitiveDateTime;

use super::parts::SourcePart;
use petal_host::numbers::decimal;
use petal_record::counters::IoCounts;
use petal_record::profile::{Clock, Input, ProfileInterval, time_text};
use petal_record::server_work::{WorkCount, WorkTime};
use petal_record::{Rows, Run, Second, moment};

const LATENCY: &str = "io_latency_us of the whole run, the same in every interval";

/// The part that a run gives, in intervals of about `every_s` seconds.
pub fn part(name: &str, run: &Run, every_s: f64) -> SourcePart {
    let summary = &run.summary;
    let begin = moment::parse(&summary.started_at);
    let mut input = Input {
        name: name.to_owned(),
        kind: "petal_run".to_owned(),
        database: Some(name.to_owned()),
        host: run.details.host.as_ref().map(|host| host.name.clone()),
        ..Input::default()
    };
    let latency_us = latencies(run, &mut input);
    let seconds = &run.details.timeline;
    let mut intervals = Vec::new();
    // The last operations end after the counters: their part of a second costs no interval.
    let counted = seconds.iter().rposition(|second| second.io.is_some()).map_or(0, |at| at + 1);
    let (counted, uncounted) = seconds.split_at(counted);
    for chunk in chunks(counted, every_s).into_iter().chain([uncounted]) {
        let Some(first) = chunk.first() else { continue };
        let at = begin.map(|begin| moment::after(begin, first.from_s));
        let at = at.map(|at| PrimitiveDateTime::new(at.date(), at.time()));
        match of_seconds(chunk, at) {
            Some(interval) => {
                intervals.push(ProfileInterval { latency_us: latency_us.clone(), ..interval });
            }
            None if !intervals.is_empty() && length_s(chunk) < 1.0 => {}
            None => input.notes.push(format!(
                "second {}: the database's counters are not known until second {}",
                decimal(first.from_s, 0),
                decimal(chunk.last().map_or(first.from_s, |last| last.from_s + last.length_s), 0)
            )),
        }
    }
    if seconds.is_empty() {
        input.notes.push("the run has no seconds".to_owned());
    }
    sources(run, &mut input);
    let block_bytes = u32::try_from(summary.target.block_size).ok().filter(|size| *size > 0);
    SourcePart { input, clock: Clock::Utc, block_bytes, intervals, ..SourcePart::default() }
}

fn sources(run: &Run, input: &mut Input) {
    let counted = format!("{} of each second, by {}", "io", run.reported_by());
    let mut say = |figure: WorkCount, source: String| {
        input.sources.insert(figure.name(), source);
    };
    say(
        WorkCount::SingleBlockReads,
        format!("{counted}: physical_read_blocks less those of scans"),
    );
    say(WorkCount::BlockWrites, format!("{counted}: physical_write_blocks"));
    say(WorkCount::RedoBytes, format!("{counted}: redo_bytes"));
    say(WorkCount::Commits, "ops.update of each second: UPDATEs that were committed".to_owned());
    if run.summary.ops.scan > 0 {
        say(
            WorkCount::MultiBlockReadBlocks,
            "rows.scan: rows, so blocks, that scans visited".into(),
        );
        let why = "assumes that scans read every block that they visited; the run does not \
                   report their requests";
        input.gaps.insert(WorkCount::MultiBlockReads.name(), why.to_owned());
    }
}

fn latencies(run: &Run, input: &mut Input) -> BTreeMap<WorkTime, f64> {
    let known = [
        (WorkTime::SingleBlockRead, "read"),
        (WorkTime::BlockWrite, "write"),
        (WorkTime::LogWrite, "log"),
    ];
    let mut latencies = BTreeMap::new();
    for (figure, name) in known {
        let key = format!("{}_us", figure.name());
        match run.summary.io_latency_us.get(name).and_then(|latency| latency.mean) {
            Some(mean) => {
                latencies.insert(figure, mean);
                input.sources.insert(key, format!("{name} of {LATENCY}"));
            }
            None => {
                input.gaps.insert(key, "the run's record does not have it".to_owned());
            }
        }
    }
    latencies
}

/// Whole seconds, about so long together; a rest shorter than half joins the last.
fn chunks(seconds: &[Second], every_s: f64) -> Vec<&[Second]> {
    let size = (every_s.round() as usize).max(1);
    let mut chunks: Vec<&[Second]> = seconds.chunks(size).collect();
    if let [.., _, last] = chunks.as_slice()
        && last.len() * 2 < size
    {
        let joined = last.len() + size;
        chunks.truncate(chunks.len() - 2);
        chunks.push(&seconds[seconds.len() - joined..]);
    }
    chunks
}

fn length_s(seconds: &[Second]) -> f64 {
    seconds.iter().map(|second| second.length_s).sum()
}

fn of_seconds(seconds: &[Second], begin: Option<PrimitiveDateTime>) -> Option<ProfileInterval> {
    let length_s = length_s(seconds);
    let io = seconds.iter().map(|second| second.io).reduce(|sum, one| Some(sum?.plus(&one?)))??;
    let rows = seconds.iter().fold(Rows::default(), |sum, second| sum.plus(&second.rows));
    let IoCounts { physical_read_blocks, physical_write_blocks, redo_bytes, .. } = io;
    let updates: u64 = seconds.iter().map(|second| second.ops.update).sum();
    let scanned = physical_read_blocks.map(|blocks| blocks.min(rows.scan));
    let single = physical_read_blocks.zip(scanned).map(|(all, scanned)| all - scanned);
    let counts = [
        (WorkCount::SingleBlockReads, single),
        (WorkCount::MultiBlockReadBlocks, scanned),
        (WorkCount::MultiBlockReads, scanned.filter(|_| rows.scan == 0)),
        (WorkCount::BlockWrites, physical_write_blocks),
        (WorkCount::Commits, Some(updates)),
        (WorkCount::RedoBytes, redo_bytes),
    ];
    let rate = |count: u64| count as f64 / length_s;
    let per_second =
        counts.into_iter().filter_map(|(figure, count)| Some((figure, rate(count?)))).collect();
    let begin = begin.map(time_text);
    (length_s > 0.0).then(|| ProfileInterval {
        begin,
        length_s,
        per_second,
        ..ProfileInterval::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture;

    #[test]
    fn the_intervals_of_a_run_add_up_to_it() {
        let run = fixture::mixed_run();
        let part = part("results/run", &run, 25.0);
        let lengths: Vec<f64> = part.intervals.iter().map(|it| it.length_s).collect();
        let seconds: f64 = run.details.timeline.iter().map(|second| second.length_s).sum();
        assert_eq!(lengths.iter().sum::<f64>(), seconds);
        assert_eq!(lengths.len(), 2, "{lengths:?}");
        let updates: f64 =
            part.intervals.iter().map(|it| it.per_second[&WorkCount::Commits] * it.length_s).sum();
        let counted: u64 = run.details.timeline.iter().map(|second| second.ops.update).sum();
        assert!((updates - counted as f64).abs() < 1e-6 && counted > 0);
    }

    #[test]
    fn no_second_is_too_late() {
        let mut run = fixture::mixed_run();
        run.details.timeline[0].from_s = 1e12;
        let part = part("run", &run, 25.0);
        assert_eq!(part.intervals[0].begin.as_deref(), Some("9999-12-31T23:59:59"));
    }

    #[test]
    fn a_part_of_a_second_at_the_end_without_counters_costs_no_interval() {
        let mut run = fixture::mixed_run();
        let whole = part("run", &run, 10.0).intervals.len();
        let last = run.details.timeline.last().unwrap().clone();
        let end_s = last.from_s + last.length_s;
        run.details.timeline.push(Second { from_s: end_s, length_s: 0.02, io: None, ..last });
        let part = part("run", &run, 10.0);
        assert_eq!((part.intervals.len(), part.input.notes), (whole, vec![]));
    }

    #[test]
    fn seconds_without_counters_are_gaps() {
        let mut run = fixture::mixed_run();
        run.details.timeline[3].io = None;
        let part = part("run", &run, 10.0);
        assert_eq!(part.intervals.len(), run.details.timeline.len() / 10 - 1);
        assert!(
            part.input.notes[0].contains("not known until second 10"),
            "{:?}",
            part.input.notes
        );
    }
}
