//! Trust in the record: is it whole, long enough, steady ([`super::steady`] says that),
//! repeated, even.

use petal_host::numbers::{counted, decimal, whole};
use serde_json::json;

use super::judgement::{
    FindingParts, Judgement, NoFinding::Clear, clear_if, error, info, known, warning,
};
use super::{and_more, physical};
use petal_record::counters::CommonCounter::{
    BadBlocks, CheckpointErrors, IoErrors, ReplayedBlocks,
};
use petal_record::timeline::LATENESS;
use petal_record::{EndpointShare, RebuiltBecause, Run, Second};

/// Missing parts of a record that a finding names.
const GAPS_SHOWN: usize = 3;
const RUN_TIME_S_MIN: f64 = 30.0;
/// Fewest operations and physical reads that show anything: a median is known from twenty values on,
/// a mean of a hundred reads within a fifth.
const OPERATIONS_MIN: u64 = 20;
const READS_MIN: u64 = 100;
const CLOCK_SLACK_S: f64 = 0.5;
pub(super) const ENDPOINT_SHARE_MAX: f64 = 0.05;
/// The finding on a run whose operations did not visit the rows asked of them.
pub(super) const ROWS_MISSING: &str = "rows-missing";

/// The finding on a run of too little work for any conclusion.
pub const TOO_FEW_OPERATIONS: &str = "too-few-operations";

pub(super) fn partial_record(run: &Run) -> Judgement {
    clear_if(!run.details.rebuilt || run.is_still_running())?;
    let seconds: usize = run.details.timeline.iter().map(Second::seconds).sum();
    let because = run.details.rebuilt_because.unwrap_or(RebuiltBecause::NotWritten);
    warning(
        format!(
            "{}: this is rebuilt from its {} seconds, and later seconds are missing",
            because.words(),
            whole(seconds as u64)
        ),
        "Do not compare it with whole runs; run it again.",
    )
    .with(json!({ "seconds": seconds }))
}

pub(super) fn gaps(run: &Run) -> Judgement {
    let gaps = &run.details.gaps;
    clear_if(gaps.is_empty() || run.is_still_running())?;
    let (shown, more) = gaps.split_at(gaps.len().min(GAPS_SHOWN));
    let more = and_more(", ", more.len());
    warning(
        format!("parts of the record are missing: {}{more}", shown.join("; ")),
        "Figures that rest on them are shown as unknown.",
    )
    .with(json!({ "gaps": run.details.gaps }))
}

pub(super) fn counters_reset(run: &Run) -> Judgement {
    let resets = &run.details.counter_resets;
    clear_if(resets.is_empty())?;
    warning(
        format!(
            "counters of the database began again within the run, so the figures that rest on them \
             are unknown: {}",
            resets.join("; ")
        ),
        "Find out who resets the statistics (monitoring, a script), and run it again without that.",
    )
    .with(json!({ "resets": resets }))
}

pub(super) fn data_vanished(run: &Run) -> Judgement {
    let why = run.details.data_vanished.as_ref().ok_or(Clear)?;
    error(
        format!(
            "the data changed in the run: {why}. Its figures are not of the data it began with"
        ),
        "Use no figure of it. Load again (petal setup), and find out who changed the data.",
    )
    .with(json!({
        "data_bytes_before": run.details.data_bytes_before,
        "data_bytes_after": run.details.data_bytes_after,
    }))
}

pub(super) fn bad_blocks(run: &Run) -> Judgement {
    clear_if(run.details.bad_blocks.is_empty())?;
    error(
        run.details.bad_blocks.join("; "),
        "Another program wrote there, or the device does not keep its data. Find out which before \
         you trust it, then load again (petal setup --replace).",
    )
    .with(json!({ "counted": run.summary.counter(BadBlocks) }))
}

/// Failures of single calls and of whole checkpoints, of engines that make these calls themselves.
pub(super) fn io_errors(run: &Run) -> Judgement {
    let counted = |counter| run.summary.counter(counter).unwrap_or(0);
    let (calls, checkpoints) = (counted(IoErrors), counted(CheckpointErrors));
    clear_if(calls + checkpoints == 0)?;
    error(
        format!(
            "calls on the database's files that failed (reads, writes, syncs, locks): {calls}; \
             checkpoints that failed: {checkpoints}"
        ),
        "See the kernel's log (dmesg), and trust no figure from this device before it is sound.",
    )
    .with(json!({ (IoErrors.name()): calls, (CheckpointErrors.name()): checkpoints }))
}

/// Judges the visited rows: each operation must visit exactly the rows asked of it.
pub(super) fn rows_missing(run: &Run) -> Judgement {
    let (visited, not_as_asked) = (run.summary.rows, run.details.ops_not_as_asked);
    let asked =
        known(run.summary.rows_asked, "this record does not hold the number of requested rows")?;
    clear_if(run.visited_all_rows() != Some(false))?;
    let (all, there) = (asked.total(), visited.total());
    let (difference, what) = match there <= all {
        true => (all - there, "were not there"),
        false => (there - all, "were there more than once"),
    };
    let operations = not_as_asked.map_or(String::new(), |count| {
        format!(", in {count} of {} operations", whole(run.summary.ops.total), count = whole(count))
    });
    error(
        format!(
            "{difference} of the {all} rows asked for ({:.1} %) {what}{operations}: this run did \
             other work than was asked for, and its figures are of that",
            difference as f64 * 100.0 / all.max(1) as f64, difference = whole(difference), all = whole(all)),
        "Use no figure of it. petal check names the schemas that lack rows; find out who changed them, \
         then load again (petal setup --replace).",
    )
    .with(json!({
        "rows_asked": asked, "rows_visited": visited, "ops_not_as_asked": not_as_asked,
    }))
}

pub(super) fn latencies_unknown(run: &Run) -> Judgement {
    let all = run.summary.ops.total;
    let untimed = run.details.ops_untimed.filter(|&untimed| untimed > 0).ok_or(Clear)?;
    warning(
        format!(
            "the latency of {untimed} of {all} operations is unknown: the clock of the \
                 database's host was set while they ran, or the database did not say when they \
                 ended. They are in no latency figure, and their DB time is by petal's clock",
            all = whole(all),
            untimed = whole(untimed)
        ),
        "Keep that clock from being set (let NTP slew it), or use LOOP=client, which petal times.",
    )
    .with(json!({ "operations": all, "untimed": untimed }))
}

pub(super) fn lost_sessions(run: &Run) -> Judgement {
    let lost = &run.summary.sessions_lost;
    let first = lost.first().ok_or(Clear)?;
    error(
        format!(
            "{} of {} sessions ended before their time; the first was session {} after {} s: \
             {} ({})",
            whole(lost.len() as u64),
            whole(run.summary.sessions.into()),
            first.session,
            decimal(first.at_s, 1),
            first.message,
            first.code
        ),
        "Find out why before using the figures: the load was not the one that was asked for.",
    )
    .with(json!({
        "sessions_lost": lost.len(), "sessions": run.summary.sessions,
        "codes": lost.iter().map(|session| session.code.clone()).collect::<Vec<_>>(),
    }))
}

/// Sessions that waited for the whole run measured nothing.
pub(super) fn nothing_done(run: &Run) -> Judgement {
    clear_if(!run.summary.nothing_done())?;
    let cut = run.summary.ops.cut;
    let mut waits = run.summary.waits.iter().filter(|wait| wait.class.is_foreground());
    let longest = waits.by_ref().reduce(|one, other| match other.time_us > one.time_us {
        true => other,
        false => one,
    });
    let longest = longest.map_or(String::new(), |wait| {
        format!("; most of the time sessions waited for {} ({})", wait.name, wait.class.label())
    });
    let others = run.details.target.advice.find_others.as_deref();
    error(
        format!(
            "no operation ended: {} waited until petal cut it after the end{longest}",
            counted(cut, "operation")
        ),
        others.unwrap_or("Look for a session that holds rows or tables of petal's."),
    )
    .with(json!({ "ops_cut": cut }))
}

/// Seconds in which petal asked for nothing are in `elapsed_s`, and in the rates.
pub(super) fn suspended(run: &Run) -> Judgement {
    let all =
        known(run.details.suspended.as_ref(), "whether petal always ran is not in this record")?;
    let first = all.first().ok_or(Clear)?;
    let lost_s: f64 = all.iter().map(|one| one.lost_s).sum();
    let machine_s: f64 = all.iter().map(|one| one.machine_s).sum();
    let why = match machine_s > 0.0 {
        true => format!(
            "its machine was suspended for {machine_s} s of that",
            machine_s = decimal(machine_s, 1)
        ),
        false => "it was stopped by a signal, or got no processor".to_owned(),
    };
    warning(
        format!(
            "petal did not run for {lost_s} s of the run ({} times, first at second {}): \
             {why}. Rates count these seconds, latencies hold them",
            whole(all.len() as u64),
            decimal(first.at_s, 0),
            lost_s = decimal(lost_s, 1)
        ),
        "Run it again, and leave petal and its machine running; give petal a processor.",
    )
    .with(json!({ "lost_s": lost_s, "machine_suspended_s": machine_s, "times": all.len() }))
}

/// A timed run. A fixed number of operations is as long as it takes.
pub(super) fn short_run(run: &Run) -> Judgement {
    clear_if(run.summary.setting_number("work_loop").unwrap_or(0.0) > 0.0)?;
    let elapsed_s = run.summary.elapsed_s;
    let seconds = match run.summary.setting_number("run_time") {
        Some(asked_s) if run.is_still_running() => asked_s,
        // No longer than it was to be, however late its last operation ended; a session that slept
        // to the end ran to the end.
        Some(asked_s) => run.details.last_done_s.unwrap_or(0.0).max(elapsed_s).min(asked_s),
        None => elapsed_s,
    };
    // Clocks end a timed run a little before or after its time.
    clear_if(seconds >= RUN_TIME_S_MIN - CLOCK_SLACK_S)?;
    warning(
        format!(
            "{} s is too short: caches, drives and checkpoints may not have settled",
            decimal(seconds, 0)
        ),
        "Use RUN_TIME=300 or more for figures to rely on.",
    )
    .with(json!({ "seconds": seconds }))
}

/// Too little work for any conclusion: not even a median is known.
pub(super) fn too_few(run: &Run) -> Judgement {
    clear_if(run.is_still_running() || run.summary.nothing_done())?;
    let shown = run.headline_window().run;
    let WorkDone { operations, reads } = WorkDone::of(&shown);
    let (count, what, least) = match reads.filter(|&reads| reads < READS_MIN) {
        _ if operations < OPERATIONS_MIN => (operations, "operation", OPERATIONS_MIN),
        Some(reads) => (reads, "physical read", READS_MIN),
        None => return Err(Clear),
    };
    warning(
        format!(
            "{} in the time that the figures cover: a conclusion takes {} or more",
            counted(count, what),
            whole(least)
        ),
        "Use no figure of it. Run longer (RUN_TIME or WORK_LOOP).",
    )
    .with(json!({ "operations": operations, "physical_read_requests": reads }))
}

/// The work that the figures of a run rest on.
pub(super) struct WorkDone {
    /// Single operations, and the rows of scans: a scan is many reads.
    operations: u64,
    /// Read requests of a test of single physical reads; None in any other test, and if the
    /// database does not report them.
    reads: Option<u64>,
}

impl WorkDone {
    pub(super) fn of(shown: &Run) -> Self {
        let (ops, rows) = (&shown.summary.ops, &shown.summary.rows);
        let of_scans = if ops.scan > 0 { rows.scan.max(ops.scan) } else { 0 };
        // Of many rows and few reads other findings say who served them.
        let is_of_reads =
            ops.scan == 0 && !physical::is_cached(shown) && rows.total() < physical::ROWS_MIN;
        let reads = shown.details.io.physical_read_requests.filter(|_| is_of_reads);
        Self { operations: ops.select + ops.update + of_scans, reads }
    }

    /// Multiple of the length that gives enough work, with some to spare.
    pub(super) fn times_longer(&self) -> f64 {
        let short = |count: u64, least: u64| 3.0 * least as f64 / count.max(1) as f64;
        let of_reads = self.reads.map_or(0.0, |reads| short(reads, READS_MIN));
        short(self.operations, OPERATIONS_MIN).max(of_reads).max(2.0)
    }
}

pub(super) fn single_run(run: &Run) -> Judgement {
    clear_if(run.details.repeats > 1)?;
    info(
        "one run shows no spread: how much the next one would differ is unknown".to_owned(),
        "Use REPEATS=3 or more before comparing.",
    )
    .with(json!({ "repeats": run.details.repeats }))
}

pub(super) fn uneven_endpoints(run: &Run) -> Judgement {
    let endpoints = &run.summary.endpoints;
    clear_if(endpoints.len() < 2)?;
    let idle: Vec<&str> = endpoints
        .iter()
        .filter(|endpoint| endpoint.sessions == 0 && !endpoint.is_beside)
        .map(|endpoint| endpoint.endpoint.as_str())
        .collect();
    if !idle.is_empty() {
        return warning(
            format!(
                "no session ran on {}: {} sessions on {} schemas, which go round the endpoints",
                idle.join(", "),
                whole(run.summary.sessions.into()),
                whole(run.summary.schemas.into())
            ),
            "Use at least as many SCHEMAS as endpoints, or name fewer endpoints.",
        )
        .with(json!({ "idle_endpoints": idle }));
    }
    // A primary also does the UPDATEs of sessions on its standbys: only like is compared.
    let [primaries, standbys] = [false, true].map(|is_standby| {
        let is_like =
            |endpoint: &&EndpointShare| endpoint.sessions > 0 && endpoint.is_standby == is_standby;
        endpoints.iter().filter(is_like).collect::<Vec<_>>()
    });
    let mut judged = [primaries, standbys].into_iter().map(|like| uneven(&like));
    judged.find(|judged| !matches!(judged, Err(Clear))).unwrap_or(Err(Clear))
}

/// Judges endpoints of one role.
fn uneven(endpoints: &[&EndpointShare]) -> Judgement {
    clear_if(endpoints.len() < 2)?;
    let shares: Option<Vec<f64>> = endpoints
        .iter()
        .map(|endpoint| {
            let requests =
                endpoint.io.physical_read_requests? + endpoint.io.physical_write_requests?;
            Some(requests as f64 / f64::from(endpoint.sessions))
        })
        .collect();
    let shares = known(shares, "not every endpoint reports its physical requests")?;
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    let off = |share: f64| if mean > 0.0 { (share / mean - 1.0).abs() } else { 0.0 };
    let each = endpoints.iter().zip(&shares);
    let worst = each.max_by(|a, b| off(*a.1).total_cmp(&off(*b.1)));
    let (endpoint, share) =
        worst.filter(|(_, share)| off(**share) > ENDPOINT_SHARE_MAX).ok_or(Clear)?;
    warning(
        format!(
            "{}: requests per session are {:.1} % {} the mean of all {}",
            endpoint.endpoint,
            off(*share) * 100.0,
            if *share > mean { "above" } else { "below" },
            if endpoint.is_standby { "standbys" } else { "endpoints" },
        ),
        "Compare the nodes: paths, caches, other load.",
    )
    .with(json!({ "requests_per_session": shares }))
}

/// Judges standbys: they write their primary's changes in addition to the run's own requests.
pub(super) fn replay(run: &Run) -> Judgement {
    let standbys: Vec<&EndpointShare> =
        run.summary.endpoints.iter().filter(|endpoint| endpoint.is_standby).collect();
    let blocks = run.summary.counter(ReplayedBlocks).filter(|&blocks| blocks > 0).ok_or(Clear)?;
    let names: Vec<&str> = standbys.iter().map(|standby| standby.endpoint.as_str()).collect();
    info(
        format!(
            "standbys ({}) wrote {blocks} blocks to replay the changes of the primary: these are \
             in no physical write, and not in PIOPS",
            names.join(", "),
            blocks = whole(blocks)
        ),
        "Compare reads of standbys with reads of standbys: their storage replays as well.",
    )
    .with(json!({ (ReplayedBlocks.name()): blocks, "standbys": names }))
}

/// An operation that came due while a session's last one was in flight is no queue: one for each
/// session is normal at the end.
pub(super) fn backlog(run: &Run) -> Judgement {
    let sessions = u64::from(run.summary.sessions);
    let backlog = run.details.backlog.filter(|&backlog| backlog > sessions).ok_or(Clear)?;
    warning(
        format!(
            "{backlog} operations were due at the end and not begun: RATE was not kept",
            backlog = whole(backlog)
        ),
        "Lower RATE, or add sessions: response times contain this queue.",
    )
    .with(json!({ "backlog": backlog }))
}

/// Largest difference of DB time and think time from the sessions' time, as a share of it.
const TIME_MISSING_MAX: f64 = 0.02;
/// Windows under this are not judged: one wait for a processor is a large share of them.
const TIME_JUDGED_S_MIN: f64 = 10.0;

/// Compares DB time and think time with the time that all sessions had, in the counted window of a
/// closed loop: there a session is always in one of them. A sleep under way at a bound counts as a
/// whole on one side of it.
pub(super) fn time_missing(run: &Run) -> Judgement {
    let summary = &run.summary;
    // A session of RATE waits for arrivals, operations in flight overlap, and hosts may each have a
    // window of their own.
    clear_if(run.details.backlog.is_some() || run.io_depth() > 1.0 || !summary.hosts.is_empty())?;
    clear_if(!summary.sessions_lost.is_empty() || run.details.rebuilt)?;
    let window = summary.steady.as_ref().zip(run.details.steady.as_ref());
    let (steady, totals) = known(window, "the totals of the counted window are not known")?;
    clear_if(steady.to_s - steady.from_s < TIME_JUDGED_S_MIN)?;
    let sessions_s = f64::from(summary.sessions) * (steady.to_s - steady.from_s);
    let missing_s = sessions_s - totals.db_time_s - totals.think_time_s;
    let longest_think_s = summary.setting_number("think_tm_max").unwrap_or(0.0);
    let has_thought = totals.think_time_s > 0.0;
    let at_bounds_s = if has_thought { f64::from(summary.sessions) * longest_think_s } else { 0.0 };
    clear_if(missing_s.abs() <= sessions_s * TIME_MISSING_MAX + at_bounds_s)?;
    let percent = missing_s.abs() / sessions_s * 100.0;
    let figures = json!({
        "sessions_s": sessions_s, "db_time_s": totals.db_time_s,
        "think_time_s": totals.think_time_s,
    });
    if missing_s < 0.0 {
        return warning(
            format!(
                "DB time and think time are {percent:.1} % more than the time that the sessions \
                 had: shares of DB time are too small by that"
            ),
            "Report it as a fault of petal, with the run's folder.",
        )
        .with(figures);
    }
    info(
        format!(
            "the sessions spent {percent:.1} % of their time between operations: petal chose and \
             counted them, or waited for a processor or the network"
        ),
        "The database could do more operations: use a larger WORK_UNIT, or give petal's host a free \
         processor.",
    )
    .with(figures)
}

/// Share of the median response time above which petal's own lateness matters.
const LATE_SHARE: f64 = 0.1;

/// Judges how late petal's sessions awoke for the operations of RATE: response times contain it.
pub(super) fn late_start(run: &Run) -> Judgement {
    let late = run.summary.latency_us.get(LATENESS).and_then(|late| late.p50).ok_or(Clear)?;
    let response = run.details.op_response_us.as_ref().and_then(|all| all.p50).ok_or(Clear)?;
    if late <= response * LATE_SHARE {
        return Err(Clear);
    }
    info(
        format!(
            "petal's sessions awoke {} us late (median), and the median response time of \
             {} us contains that",
            decimal(late, 0),
            decimal(response, 0)
        ),
        "Compare service times, or give petal's host a free processor.",
    )
    .with(json!({ "lateness_p50_us": late, "response_p50_us": response }))
}
