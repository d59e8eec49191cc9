//! Samples a run once a second and keeps it: operations, the database's and the operating system's
//! counters, the file of seconds and the latency log.
//!
//! At a second's end the counters are sampled; a moment later, when sessions have folded their
//! batches, the second is harvested and written.

use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use petal_engine::{Engine, Result};
use petal_host::delta;
use petal_host::facts::FactChange;
use petal_host::histogram::{Latencies, LatencySummary};
use petal_host::numbers::decimal;
use petal_host::os::{GaugeRanges, OsSample};
use petal_record::counters::{CommonCounter, Counters, Wait};
use petal_record::latency_log::LatencyLog;
use petal_record::os::SecondSeen;
use petal_record::seconds::{self, SecondsFile, SecondsLine, UnreadOpening};
use petal_record::timeline::{Shards, Tally};
use petal_record::{CountedUntil, Ops, RecordFolder, RowList, Rows, Second, SessionLost};

use super::deltas::Deltas;
use super::experiments::Experiments;
use super::facts::FactsWatch;
use super::neighbours::Neighbours;
use super::steady_window::{Mark, SteadyWindow};
use super::watching::Watching;

/// Delay after a second's end until it is harvested: sessions fold about every 0.1 s.
const HARVEST_DELAY: Duration = Duration::from_millis(150);
/// Number of samples kept to find the bounds of the seconds that are harvested next.
const MARKS_MAX: usize = 16;

/// The step that the sampler does next within a second.
#[derive(Clone, Copy)]
enum SamplerStep {
    Sample,
    Harvest,
}

pub struct Sampler<'a> {
    parts: Parts<'a>,
    /// Lost sessions that are written.
    lost_reported: BTreeSet<u32>,
    /// Changes of facts that are not written yet.
    changed: Vec<FactChange>,
    phase: SamplerStep,
    /// Number of the current second.
    second: u64,
    /// Counters at the trigger.
    first: Mark,
    /// Newest samples, in the order of time.
    marks: VecDeque<Mark>,
    /// Sum over endpoints at the newest mark, or `None` if unknown.
    latest: Option<Arc<Counters>>,
    deltas: Deltas,
    /// Database's totals at the latest sampled end of a second.
    counted: Option<SampledTotals>,
    pub totals: Tally,
    pub steady: SteadyWindow,
    pub timeline: RowList,
    /// Seconds that the run's watcher has not seen.
    unseen: Vec<Second>,
    /// Reasons why something could not be kept, each once.
    pub gaps: Vec<String>,
}

/// Inputs and outputs of a sampler.
pub struct Parts<'a> {
    pub engine: &'a dyn Engine,
    pub watching: Option<Watching<'a>>,
    /// False if another host samples the database.
    pub counts_database: bool,
    /// Set if the database's devices and processors belong to this host.
    pub local: bool,
    pub shards: &'a Shards,
    pub trigger: Instant,
    pub warm_up_s: f64,
    /// Planned time in seconds: RUN_TIME.
    pub planned_s: f64,
    pub opening: Vec<Counters>,
    pub opening_os: Option<OsSample>,
    pub file: Option<SecondsFile>,
    pub latency_log: Option<LatencyLog>,
    /// Experiments of the run, which follow the counted window.
    pub experiments: Option<&'a Experiments>,
    /// Facts that must hold until the end.
    pub facts: Option<FactsWatch<'a>>,
    /// Neighbours of the run, which follow the warm-up.
    pub neighbours: Option<&'a Neighbours<'a>>,
}

/// State of the sessions when a second is harvested.
#[derive(Debug, Clone)]
pub struct SessionCounts {
    pub running: u32,
    pub first_done_ns: Option<u64>,
    pub lost: Vec<SessionLost>,
}

impl<'a> Sampler<'a> {
    pub fn new(parts: Parts<'a>) -> Self {
        let cuts = Self::cuts(&parts);
        let none = parts.opening.iter().map(|opening| opening.since(opening)).collect();
        let first = Mark::new(0.0, Some(none), parts.opening_os.clone());
        Self {
            lost_reported: BTreeSet::new(),
            changed: Vec::new(),
            phase: SamplerStep::Sample,
            second: 0,
            marks: VecDeque::from([first.clone()]),
            first,
            latest: None,
            deltas: Deltas::new(&parts.opening),
            parts,
            counted: None,
            totals: Tally::default(),
            steady: SteadyWindow::default(),
            timeline: RowList::cut_at(cuts),
            unseen: Vec::new(),
            gaps: Vec::new(),
        }
    }

    /// Moments at which the counted window may begin or end.
    fn cuts(parts: &Parts<'_>) -> Vec<f64> {
        let experiments = parts.experiments.map(Experiments::from_s);
        [parts.warm_up_s].into_iter().chain(experiments).collect()
    }

    /// Takes the seconds since the last call.
    pub fn take_unseen(&mut self) -> Vec<Second> {
        std::mem::take(&mut self.unseen)
    }

    /// Returns the time of the next step.
    pub fn due(&self) -> Instant {
        let end = self.parts.trigger + Duration::from_secs(self.second + 1);
        match self.phase {
            SamplerStep::Sample => end,
            SamplerStep::Harvest => end + HARVEST_DELAY,
        }
    }

    /// Performs the steps that are due.
    pub fn tick(&mut self, standing: &SessionCounts) {
        match self.phase {
            SamplerStep::Sample => {
                let end_s = self.second as f64 + 1.0;
                let bounds = [self.parts.warm_up_s, self.undisturbed_s(), self.parts.planned_s];
                let is_bound = bounds.map(f64::ceil).contains(&end_s);
                self.phase = SamplerStep::Harvest;
                self.survive(|sampler| sampler.sample(is_bound));
            }
            SamplerStep::Harvest => {
                let before = self.second + 1;
                // A delayed petal skips ahead, and does not sample the past.
                self.second = self.parts.trigger.elapsed().as_secs().max(before);
                self.phase = SamplerStep::Sample;
                self.parts.shards.count_under_way(before);
                self.survive(|sampler| sampler.harvest(before, None, standing));
            }
        }
    }

    /// Harvests the remaining seconds; the last one ends at `end_s`.
    pub fn finish(&mut self, end_s: f64, standing: &SessionCounts) {
        self.survive(|sampler| sampler.sample(true));
        if let Some(watching) = &mut self.parts.watching {
            watching.finish();
        }
        let end = self.parts.shards.end();
        self.survive(|sampler| sampler.harvest(end, Some(end_s), standing));
        // A session that was lost after the last counted second is also written.
        if standing.lost.iter().any(|lost| !self.lost_reported.contains(&lost.session)) {
            self.survive(|sampler| sampler.harvest(end_s.ceil() as u64, Some(end_s), standing));
        }
        self.survive(Self::write_samples);
        if let Some(Err(error)) = self.parts.latency_log.as_mut().map(LatencyLog::finish) {
            self.gap(format!("latencies by second are kept only so far: {error}"));
        }
    }

    /// Calls `work`; a panic affects only this second, not the run. Rust has then reported the
    /// failure.
    fn survive(&mut self, work: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| work(&mut *self))).is_err() {
            self.latest = None;
            self.gap(
                "at least one second was sampled or written only in part: petal failed inside; \
                 please report it, with the output on stderr"
                    .to_owned(),
            );
        }
    }

    /// Returns the time from which on the run makes experiments on itself.
    fn undisturbed_s(&self) -> f64 {
        self.parts.experiments.map_or(f64::INFINITY, Experiments::from_s)
    }

    /// Samples all layers. `is_bound` is set at a bound of the counted window, so that histograms
    /// are sampled as well.
    fn sample(&mut self, is_bound: bool) {
        let counts = self.parts.counts_database;
        let sampled = if counts { self.parts.engine.read_counters(false) } else { Ok(Vec::new()) };
        let histograms = (counts && is_bound).then(|| self.parts.engine.read_counters(true));
        let sampled = sampled.map(|mut counters| {
            let all = histograms.iter().flatten().flatten();
            all.for_each(|full| add_histograms(&mut counters, full));
            counters
        });
        let at_s = self.parts.trigger.elapsed().as_secs_f64();
        // A server that started again answers, with counters that began again.
        let answers = sampled.is_ok();
        let sampled = self.deltas.take(sampled, at_s);
        let counters = sampled.inspect_err(|why| {
            self.gap(format!("the database's counters could not be sampled: {why}"));
        });
        if let Some(facts) = &mut self.parts.facts {
            self.changed.extend_from_slice(facts.look(at_s, answers));
        }
        let os = self.parts.watching.as_mut().map(|watching| watching.look(at_s));
        let mark = Mark::new(at_s, counters.ok(), os);
        self.latest.clone_from(&mark.sum);
        self.keep_counted(&mark);
        self.marks.push_back(mark);
        if self.marks.len() > MARKS_MAX {
            self.marks.pop_front();
        }
    }

    /// Counters sampled near a second's end belong to the seconds that petal counted.
    fn keep_counted(&mut self, mark: &Mark) {
        let second = mark.at_s.round();
        if let Some(counters) = mark.counters.clone()
            && second >= 1.0
            && mark.is_near(second)
        {
            self.counted = Some(SampledTotals { second, counters, times: None });
        }
    }

    /// Returns the deltas of a snapshot after the closing one; `None` if they are unknown.
    pub fn counters_until_now(&mut self, now: Result<Vec<Counters>>) -> Option<Vec<Counters>> {
        let at_s = self.parts.trigger.elapsed().as_secs_f64();
        self.deltas.take(now, at_s).ok()
    }

    /// Returns the closing snapshot's deltas. If it failed, returns the deltas of the last good
    /// second, and its end.
    pub fn close_counters(
        &mut self,
        closing: Result<Vec<Counters>>,
    ) -> (Option<Vec<Counters>>, Option<CountedUntil>) {
        let at_s = self.parts.trigger.elapsed().as_secs_f64();
        let why = match self.deltas.take(closing, at_s) {
            Ok(counters) => return (Some(counters), None),
            Err(why) => why,
        };
        let last =
            self.counted.take().and_then(|last| Some((last.second, last.times?, last.counters)));
        let Some((second, (busy_ns, think_ns), counters)) = last else {
            self.gap(format!(
                "the closing snapshot failed, so the database's figures are unknown: {why}"
            ));
            return (None, None);
        };
        self.gap(format!(
            "the closing snapshot failed, so the database's figures end at second {}: {why}",
            decimal(second, 0)
        ));
        let last = self.timeline.rows_and_open().into_iter().flatten().next_back();
        let until = CountedUntil {
            second,
            of_s: last.map_or(second, |last| last.from_s + last.length_s),
            db_time_s: busy_ns as f64 / 1e9,
            think_time_s: think_ns as f64 / 1e9,
        };
        (Some(counters.to_vec()), Some(until))
    }

    fn harvest(&mut self, before: u64, end_s: Option<f64>, standing: &SessionCounts) {
        for (second, tally) in self.parts.shards.harvest(before) {
            let from_s = second as f64;
            let length_s = match end_s {
                Some(end_s) if end_s < from_s + 1.0 => (end_s - from_s).max(0.0),
                _ => 1.0,
            };
            self.totals.add(&tally);
            if let Some(experiments) = self.parts.experiments {
                experiments.follow(&self.totals);
            }
            let counted = self.counted.as_mut();
            if let Some(counted) = counted.filter(|counted| counted.second == from_s + 1.0) {
                counted.times = Some((self.totals.busy_ns, self.totals.think_ns));
            }
            self.extend_steady(second, length_s, &tally, standing);
            if let Some(neighbours) = self.parts.neighbours.filter(|_| length_s >= 1.0) {
                neighbours.count(second, &tally, self.bounds(from_s));
            }
            let mut row = row(&tally, from_s, length_s, standing.running);
            self.fill_counters(&mut row);
            self.log_latencies(&row, &tally);
            self.write(&row, standing);
            self.unseen.push(row.clone());
            self.timeline.push(row, None);
        }
    }

    /// Fills a second's counters from the samples at its bounds. If petal was delayed and missed
    /// one, or if the last second is too short for a sample, they stay unknown.
    fn fill_counters(&self, row: &mut Second) {
        let (from, to) = (self.mark_near(row.from_s), self.mark_near(row.from_s + row.length_s));
        let Some((from, to)) = from.zip(to).filter(|_| row.length_s > 0.5) else { return };
        if let Some((to, from)) = to.sum.as_ref().zip(from.sum.as_ref()) {
            row.io = Some(to.io.since(&from.io));
            let rise = |counter: CommonCounter| {
                let [then, now] = [from, to].map(|sum| sum.raw.get(counter.name()).copied());
                delta(then?, now?)
            };
            row.checkpoints = rise(CommonCounter::Checkpoints);
            row.vacuums = rise(CommonCounter::Vacuums);
            row.log_switches = rise(CommonCounter::LogSwitches);
            row.block_images = rise(CommonCounter::BlockImages);
        }
        if let Some((to, from)) = to.os.as_ref().zip(from.os.as_ref()) {
            let interval = to.since(from);
            row.cpu = interval.cpu().filter(|_| self.parts.local);
            row.device = interval.device();
        }
    }

    fn mark_near(&self, at_s: f64) -> Option<&Mark> {
        self.marks.iter().rev().find(|mark| mark.is_near(at_s))
    }

    fn extend_steady(
        &mut self,
        second: u64,
        length_s: f64,
        tally: &Tally,
        standing: &SessionCounts,
    ) {
        let from_s = second as f64;
        let all_ran = standing
            .first_done_ns
            .is_none_or(|done_ns| (second + 1).saturating_mul(1_000_000_000) <= done_ns);
        let is_perturbed = from_s + 1.0 > self.undisturbed_s();
        if from_s < self.parts.warm_up_s || length_s < 1.0 || !all_ran || is_perturbed {
            return;
        }
        let bounds = self.bounds(from_s);
        self.steady.add(from_s, tally, bounds);
    }

    /// Marks at the bounds of a second, if the database was sampled there.
    fn bounds(&self, from_s: f64) -> (Option<Mark>, Option<Mark>) {
        let [begin, end] = [from_s, from_s + 1.0]
            .map(|at_s| self.mark_near(at_s).filter(|mark| mark.counters.is_some()).cloned());
        (begin, end)
    }

    fn log_latencies(&mut self, row: &Second, tally: &Tally) {
        let Some(log) = &mut self.parts.latency_log else { return };
        let times: Vec<_> = tally.times_by_name().chain(tally.hot_by_name()).collect();
        let times = times.iter().map(|(name, latencies)| (name.as_str(), *latencies));
        if let Err(error) = log.second(row.from_s, row.length_s, times) {
            self.gap(format!("latencies by second are kept only so far: {error}"));
        }
    }

    /// Writes samples of the operating system that belong to no second.
    fn write_samples(&mut self) {
        let (Some(file), Some(watching)) = (&mut self.parts.file, &mut self.parts.watching) else {
            return;
        };
        let written = watching.unwritten.drain(..).try_for_each(|seen| file.os_alone(seen));
        if let Err(error) = written {
            self.gap(format!("the seconds are kept only so far: {error}"));
        }
    }

    fn write(&mut self, row: &Second, standing: &SessionCounts) {
        let petal_cpu_s = self.petal_cpu_s();
        // Earlier samples are of seconds in which petal was late.
        let newest = match &self.parts.file {
            Some(_) => self.parts.watching.as_mut().and_then(|watching| watching.unwritten.pop()),
            None => return,
        };
        self.write_samples();
        let Some(file) = &mut self.parts.file else { return };
        let latest = self.latest.as_ref();
        let reported = &mut self.lost_reported;
        let lost_now = standing.lost.iter().filter(|lost| reported.insert(lost.session));
        let line = SecondsLine {
            second: Some(row.clone()),
            os: newest,
            waits: latest.iter().flat_map(|c| &c.waits).map(Wait::total).collect(),
            counters: latest.map(|c| c.raw.clone()).unwrap_or_default(),
            uncounted: latest.is_none() && self.parts.counts_database,
            omits_zeros: latest.is_some_and(|c| c.omits_zeros),
            unknown: latest.map(|c| c.unknown.clone()).unwrap_or_default(),
            errors: self.totals.errors.clone(),
            sessions_lost: lost_now.cloned().collect(),
            changes: std::mem::take(&mut self.changed),
            petal_cpu_s,
            db_time_s: self.totals.busy_ns as f64 / 1e9,
            think_time_s: self.totals.think_ns as f64 / 1e9,
            ..SecondsLine::default()
        };
        if let Err(error) = file.second(line) {
            self.gap(format!("the seconds are kept only so far: {error}"));
        }
    }

    /// Returns petal's own CPU seconds since the trigger.
    fn petal_cpu_s(&self) -> Option<f64> {
        let last = self.marks.back()?.os.as_ref()?;
        last.since(self.first.os.as_ref()?).petal_cpu_s()
    }

    /// Describes each counter that was reset during the run, in a sentence.
    pub fn counter_resets(&self) -> Vec<String> {
        self.deltas.resets()
    }

    /// Ends the file of seconds. Returns the ranges of gauges, the number of samples of the operating
    /// system, and these samples, from the file if there is one.
    pub fn take_samples(
        &mut self,
        folder: Option<&RecordFolder>,
    ) -> (GaugeRanges, u64, Vec<SecondSeen>) {
        let is_written = self.parts.file.take().is_some();
        let cuts = Self::cuts(&self.parts);
        let Some(watching) = self.parts.watching.take() else { return Default::default() };
        let mut seconds = watching.unwritten;
        if let Some(folder) = folder.filter(|_| is_written) {
            let rows = |_: &UnreadOpening| RowList::cut_at(cuts);
            match seconds::read(&folder.path().join(seconds::NAME), rows) {
                Ok(read) => seconds = read.os_rows,
                Err(error) => self.gap(format!("no seconds of the operating system: {error}")),
            }
        }
        seconds.iter_mut().for_each(|seen| seen.interval.cpus.each = Vec::new());
        (watching.ranges, watching.intervals, seconds)
    }

    /// Returns the look at the facts, for their proof.
    pub fn take_facts(&mut self) -> Option<FactsWatch<'a>> {
        self.parts.facts.take()
    }

    fn gap(&mut self, gap: String) {
        if !self.gaps.contains(&gap) {
            self.gaps.push(gap);
        }
    }
}

/// Adds the histograms of a snapshot to the totals of a sample taken at the same time.
fn add_histograms(sampled: &mut [Counters], full: &Counters) {
    let same = sampled.iter_mut().filter(|counters| counters.endpoint == full.endpoint);
    for wait in same.flat_map(|counters| &mut counters.waits) {
        wait.latencies = full.wait(&wait.name).and_then(|known| known.latencies.clone());
    }
}

fn row(tally: &Tally, from_s: f64, length_s: f64, sessions: u32) -> Second {
    // As a file keeps them: a mean has no more digits than its clock.
    let summary = |latencies: &Latencies| {
        let all = latencies.summary();
        LatencySummary { mean: all.mean.map(|us| (us * 1000.0).round() / 1000.0), ..all }
    };
    let latency_us = tally.service_by_kind().map(|(name, l)| (name, summary(l))).collect();
    Second {
        from_s,
        length_s,
        ops: Ops::from(tally),
        rows: Rows::from(tally),
        rows_asked: Some(Rows::by_kind(&tally.rows_asked)),
        errors: tally.errors_total(),
        sessions,
        latency_us,
        ..Second::default()
    }
}

/// Database's totals since the trigger.
struct SampledTotals {
    second: f64,
    counters: Arc<Vec<Counters>>,
    /// Sessions' time in operations and in think time up to then, once that second is counted.
    times: Option<(u64, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_engine::EngineError;
    use petal_record::counters::IoCounts;
    use petal_record::fixture;
    use petal_scripted::{Script, Scripted};

    use super::super::deltas::tests::sampled;

    fn sampler<'a>(
        engine: &'a Scripted,
        shards: &'a Shards,
        file: Option<SecondsFile>,
    ) -> Sampler<'a> {
        Sampler::new(Parts {
            engine,
            watching: None,
            counts_database: true,
            local: true,
            shards,
            trigger: Instant::now(),
            warm_up_s: 0.0,
            planned_s: 60.0,
            opening: engine.read_counters(true).unwrap(),
            opening_os: None,
            file,
            latency_log: None,
            experiments: None,
            facts: None,
            neighbours: None,
        })
    }

    #[test]
    fn a_lost_session_is_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let opening = seconds::Opening::new(fixture::opening());
        let file = SecondsFile::begin(&RecordFolder::open(dir.path()), &opening).unwrap();
        let (engine, shards) = (Scripted::in_memory(Script::default(), 10_000), Shards::new(1));
        let mut sampler = sampler(&engine, &shards, Some(file));
        let lost = |session| SessionLost {
            session,
            at_s: 0.5,
            code: "dead".to_owned(),
            message: "it died".to_owned(),
        };
        for lost in [vec![lost(2)], vec![lost(2)], vec![lost(1), lost(2)]] {
            let standing = SessionCounts { running: 1, first_done_ns: None, lost };
            sampler.write(&Second::default(), &standing);
        }
        let rows = |_: &UnreadOpening| RowList::default();
        let read = seconds::read(&dir.path().join(seconds::NAME), rows).unwrap();
        assert_eq!(read.sessions_lost, [lost(2), lost(1)]);
    }

    #[test]
    fn totals_reach_to_the_last_good_second() {
        let (engine, shards) = (Scripted::in_memory(Script::default(), 10_000), Shards::new(1));
        let failed = || Err(EngineError::Environment("it is gone".to_owned()));
        let mut sampler = sampler(&engine, &shards, None);
        sampler.keep_counted(&Mark::new(2.03, Some(sampled(500)), None));
        // Not at a second's end, so that none of petal's seconds matches it.
        sampler.keep_counted(&Mark::new(2.63, Some(sampled(700)), None));
        sampler.counted.as_mut().unwrap().times = Some((3_000_000_000, 0));
        let (counters, until) = sampler.close_counters(failed());
        assert_eq!(counters.unwrap()[0].io.logical_reads, Some(500));
        let until = until.unwrap();
        assert_eq!((until.second, until.db_time_s), (2.0, 3.0));
        assert_eq!(
            sampler.gaps,
            ["the closing snapshot failed, so the database's figures end at second 2: it is gone"]
        );
        // No second was reported: nothing is known.
        assert_eq!(sampler.close_counters(failed()).0.map(|counters| counters.len()), None);
        assert!(sampler.gaps[1].contains("are unknown"));
    }

    #[test]
    fn a_long_run_keeps_few_samples_and_knows_its_steady_window() {
        let (engine, shards) = (Scripted::in_memory(Script::default(), 10_000), Shards::new(1));
        let mut sampler = sampler(&engine, &shards, None);
        let standing = SessionCounts { running: 1, first_done_ns: None, lost: Vec::new() };
        for second in 0..100 {
            // The counters one second later.
            let io = IoCounts { commits: Some(1000 * (second + 1)), ..IoCounts::default() };
            sampler.sample(false);
            let mark = sampler.marks.back_mut().unwrap();
            mark.at_s = second as f64 + 1.0;
            mark.counters = Some(Arc::new(vec![Counters { io, ..Counters::default() }]));
            sampler.extend_steady(second, 1.0, &Tally::default(), &standing);
        }
        assert!(sampler.marks.len() <= MARKS_MAX);
        let steady = sampler.steady.close();
        assert_eq!((steady.seconds.from_s, steady.seconds.to_s), (0.0, 100.0));
        assert_eq!(steady.between_samples().unwrap().1[0].io.commits, Some(100_000));
    }
}
