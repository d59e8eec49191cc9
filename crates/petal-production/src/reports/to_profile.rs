//! Converts a report to its part of a profile: an interval's rates and latencies, their positions
//! in the report, and the reasons for missing ones.

use petal_host::numbers::decimal;
use time::PrimitiveDateTime;

use crate::profile::parts::SourcePart;
use petal_awr::AwrError;
use petal_awr::columns;
use petal_awr::derived::{SINGLE_BLOCK_READS, begin_iso, end_iso, rate, waits_of_all};
use petal_awr::figure::{Figure, number, shown};
use petal_awr::load::per_second;
use petal_awr::report::{Report, ReportKind};
use petal_record::profile::{Clock, Input, ProfileInterval, parse_time};
use petal_record::server_work::{WorkCount, WorkTime};

/// The clock and the elapsed time of a report may differ by so much: some print minutes.
const CLOCK_SLACK_S: f64 = 90.0;

/// Statistics whose requests carry several blocks, of all of an instance's files.
const MULTI: &str = "physical read total multi block requests";
const SEVERAL: [&str; 2] = ["db file scattered read", "direct path read"];

type Derive = fn(&Report) -> Option<Figure>;

const RATES: [(WorkCount, Derive, &str); 6] = [
    (
        WorkCount::SingleBlockReads,
        single_block_reads,
        "neither waits for single-block reads (db file sequential read) nor their requests are in \
         the report",
    ),
    (
        WorkCount::MultiBlockReads,
        multi_block_reads,
        "neither the statistic of multi-block requests nor waits for such reads are in the report",
    ),
    (
        WorkCount::MultiBlockReadBlocks,
        multi_block_read_blocks,
        "physical reads, or the single-block reads to be taken from them, are not in the report",
    ),
    (
        WorkCount::BlockWrites,
        |r| column(r, "physical_write_blocks_per_s"),
        "physical writes are not in the report's load profile",
    ),
    (WorkCount::Commits, commits, "neither user commits nor transactions are in the report"),
    (
        WorkCount::RedoBytes,
        |r| column(r, "redo_bytes_per_s").or_else(|| rate(r, "redo size")),
        "redo size is not in the report",
    ),
];

const LATENCIES: [(WorkTime, Derive); 5] = [
    (WorkTime::SingleBlockRead, |r| column(r, "read_us")),
    (WorkTime::MultiBlockRead, |r| {
        column(r, "scattered_read_us").or_else(|| column(r, "direct_read_us"))
    }),
    (WorkTime::BlockWrite, |r| column(r, "write_us")),
    (WorkTime::LogWrite, |r| column(r, "log_write_us")),
    (WorkTime::Commit, |r| column(r, "log_sync_us")),
];

fn column(report: &Report, name: &str) -> Option<Figure> {
    (columns::column(name)?.value)(report)
}

/// Waits for single-block reads per second, whichever layer served them.
fn single_block_reads(report: &Report) -> Option<Figure> {
    let elapsed = report.header.elapsed_min.as_ref()?;
    let waited = waits_of_all(report, &SINGLE_BLOCK_READS);
    let Some(first) = waited.first() else {
        let (all, several) = (rate(report, "physical read IO requests")?, rate(report, MULTI)?);
        let how = format!("{}: physical read IO requests less multi block requests", all.section);
        let single = (all.number()? - several.number()?).max(0.0);
        return Figure::computed(single, all.step + several.step, how);
    };
    let how = format!("{}: waits for single-block reads", first.section);
    per_second(&Figure::sum(&waited, how)?, elapsed, "waits")
}

fn multi_block_reads(report: &Report) -> Option<Figure> {
    rate(report, MULTI).or_else(|| {
        let waited = waits_of_all(report, &SEVERAL);
        let first = waited.first()?;
        let how = format!("{}: waits for scattered and direct reads", first.section);
        per_second(&Figure::sum(&waited, how)?, report.header.elapsed_min.as_ref()?, "waits")
    })
}

/// Blocks that single-block reads did not read.
fn multi_block_read_blocks(report: &Report) -> Option<Figure> {
    let blocks = column(report, "physical_read_blocks_per_s")?;
    let single = single_block_reads(report)?;
    let how = format!("{}: physical reads less single-block reads", blocks.section);
    Figure::computed((blocks.number()? - single.number()?).max(0.0), blocks.step + single.step, how)
}

fn commits(report: &Report) -> Option<Figure> {
    rate(report, "user commits").or_else(|| {
        let all = column(report, "transactions_per_s")?;
        let rolled_back =
            report.load_profile.rollbacks.per_second.as_ref().and_then(Figure::number);
        let how = format!("{}: transactions less rollbacks", all.section);
        Figure::computed((all.number()? - rolled_back.unwrap_or(0.0)).max(0.0), all.step, how)
    })
}

/// Converts a report to its part of a profile.
pub fn part(report: &Report) -> SourcePart {
    let mut input = input(report);
    let mut interval = ProfileInterval {
        begin: begin_iso(report).map(|time| time.shown()),
        ..ProfileInterval::default()
    };
    let mut known = |key: String, found: Option<Figure>, lacks: &str| {
        let value = found.as_ref().and_then(Figure::number);
        match found.filter(|_| value.is_some()) {
            Some(found) => input.sources.insert(key, found.section.to_string()),
            None => input.gaps.insert(key, lacks.to_owned()),
        };
        value
    };
    for (figure, derive, lacks) in RATES {
        let rate = known(figure.name(), derive(report), lacks);
        interval.per_second.extend(rate.map(|rate| (figure, rate)));
    }
    for (figure, derive) in LATENCIES {
        let lacks = "no such waits are in the report, or it prints their time as 0";
        let latency = known(format!("{}_us", figure.name()), derive(report), lacks);
        interval.latency_us.extend(latency.map(|latency| (figure, latency)));
    }
    limit_requests_to_blocks(&mut interval, &mut input);
    let elapsed_s = number(&report.header.elapsed_min).map(|minutes| minutes * 60.0);
    let intervals = match elapsed_s.filter(|length_s| *length_s > 0.0) {
        _ if report.spans_restart => {
            let why = "the instance was restarted between its snapshots: its counts mean nothing";
            input.notes.push(why.to_owned());
            Vec::new()
        }
        None => {
            input.notes.push("it has no elapsed time: no rate can be made of it".to_owned());
            Vec::new()
        }
        Some(_) if interval.per_second.is_empty() => {
            input.notes.push("it has none of the figures of a profile".to_owned());
            Vec::new()
        }
        Some(length_s) => {
            input.notes.extend(clock_note(report, length_s));
            vec![ProfileInterval { length_s, ..interval }]
        }
    };
    SourcePart {
        input,
        clock: Clock::Database,
        block_bytes: column(report, "block_bytes").and_then(|found| Some(found.number()? as u32)),
        database_id: shown(&report.header.db_id),
        snapshot: number(&report.header.begin_snap),
        is_cluster: shown(&report.header.rac).is_some_and(|rac| rac.eq_ignore_ascii_case("yes")),
        intervals,
    }
}

/// A file that gives no report, as a part without intervals.
pub fn unread(error: &AwrError) -> SourcePart {
    let name = match error {
        AwrError::Unreadable { file, .. }
        | AwrError::Other { file, .. }
        | AwrError::Empty { file, .. }
        | AwrError::Foreign { file, .. }
        | AwrError::Cut { file, .. }
        | AwrError::DecimalComma { file, .. }
        | AwrError::Internal { file, .. } => file.clone(),
    };
    let notes = vec![error.to_string()];
    SourcePart {
        input: Input { name, kind: "unread".to_owned(), notes, ..Input::default() },
        ..SourcePart::default()
    }
}

fn input(report: &Report) -> Input {
    let notes = report.notes.clone();
    let kind = match report.kind {
        ReportKind::Awr => "awr",
        ReportKind::Awrg | ReportKind::AwrgInstance => "awr of a cluster",
        ReportKind::Awrpdb => "awr of a pluggable database",
        ReportKind::Sp => "statspack",
        ReportKind::Excerpt => "excerpt of a report",
    };
    Input {
        name: report.file.clone(),
        kind: kind.to_owned(),
        database: shown(&report.header.db).or_else(|| shown(&report.header.instance)),
        instance: shown(&report.header.instance),
        host: shown(&report.header.host),
        notes,
        ..Input::default()
    }
}

/// Requests for several blocks are of all files of an instance, their blocks of its data alone.
fn limit_requests_to_blocks(interval: &mut ProfileInterval, input: &mut Input) {
    let several = interval.rate(WorkCount::MultiBlockReads);
    let blocks = interval.rate(WorkCount::MultiBlockReadBlocks);
    if let Some((several, blocks)) =
        several.zip(blocks).filter(|(several, blocks)| several > blocks)
    {
        interval.per_second.insert(WorkCount::MultiBlockReads, blocks);
        input.gaps.insert(
            WorkCount::MultiBlockReads.name(),
            format!(
                "the report has {several} requests for several blocks per second, and {blocks} \
                 blocks that single-block reads did not bring: backups and other files are in the \
                 requests, which are cut to the blocks",
                several = decimal(several, 1),
                blocks = decimal(blocks, 1)
            ),
        );
    }
}

/// Reports a clock that moved differently from the report's elapsed time.
fn clock_note(report: &Report, length_s: f64) -> Option<String> {
    let time = |found: Option<Figure>| -> Option<PrimitiveDateTime> { parse_time(&found?.shown()) };
    let (begin, end) = (time(begin_iso(report))?, time(end_iso(report))?);
    let by_clock_s = (end - begin).as_seconds_f64();
    ((by_clock_s - length_s).abs() > CLOCK_SLACK_S + length_s * 0.02).then(|| {
        format!(
            "its elapsed time is {} minutes and its clock moved {}: the clock was set, or the \
             report was edited; the length is the elapsed time",
            decimal(length_s / 60.0, 1),
            decimal(by_clock_s / 60.0, 1)
        )
    })
}

#[cfg(test)]
mod tests;
