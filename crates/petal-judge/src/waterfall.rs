//! The waterfall of an operation: its time divided among petal, the wire, processors, the queue for
//! them, reads by layer, writes, and other waits.
//!
//! The operation's time is petal's or the server's clock. The parts are the kernel's: the states of
//! the threads that execute operations, and the times of requests at the block devices. So the sum
//! can differ from the operation's time, and a finding names the gap. The wire is the time in which
//! petal waits for the server, less the time that the server had: both ends are measured.

use serde_json::json;

use super::judgement::{FindingParts as _, Judgement, clear_if, known, warning};
use petal_host::numbers::decimal;
use petal_host::os::requests::{RequestKind, Requests};
use petal_host::os::threads::{ThreadRole, ThreadState, ThreadTimes};
use petal_host::os::time_buckets::TimeBuckets;
use petal_record::headline::ReadParts;
use petal_record::os::HostSeen;
use petal_record::waterfall::{GAP_SHARE_MAX, PartOfTime, Waterfall, WaterfallPart};
use petal_record::{Run, Second};

/// The operations of one second are too few below this.
const OPERATIONS_MIN: u64 = 10;

const BLOCK_LAYER: &str = "the kernel's block layer";
const SESSIONS: &str = "petal's session threads";
const SERVER: &str = "the server's threads";

/// The threads that execute operations.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum OperationSide {
    /// petal's threads execute operations.
    InPetal,
    /// The server executes each operation as a request.
    ByRequest,
    /// The server executes many in a request, and times them.
    InServer,
}

/// Divides the time of a run that is reduced to a window. None if nobody asked for it.
pub fn of(run: &Run) -> Option<Waterfall> {
    let seen = run.details.os.as_ref();
    if let Some(sum) = seen.map(|seen| &seen.whole.sum)
        && let Some(threads) = &sum.threads
    {
        let operations = (run.summary.ops.total, run.details.db_time_s * 1e6);
        return Some(divided(run, operations, threads, sum.requests.as_ref()));
    }
    run.summary.setting("waterfall")?.as_bool().filter(|&is_asked| is_asked)?;
    let no_second = "the window has no second in which threads were timed";
    Some(Waterfall::unknown(match seen {
        Some(seen) => seen.threads_unseen.as_deref().unwrap_or(no_second),
        None => "NO_OS_PERF_DATA=TRUE",
    }))
}

/// Divides the mean time of a block read by the database's clock into the device's, the wait for a
/// processor and the rest. None if operations also wait for a processor after other calls, or if their
/// parts do not add up.
pub(super) fn of_read(run: &Run, read_us: f64) -> Option<ReadParts> {
    let ops = &run.summary.ops;
    let waterfall = of(run).filter(|it| it.adds_up() && ops.update + ops.scan == 0)?;
    let reads = run.summary.io_latency_us.get("read").map(|read| read.count).filter(|&n| n > 0)?;
    let threads = run.details.os.as_ref()?.whole.sum.threads.as_ref()?;
    let division = Division { executed: executed(run), operations: reads, threads };
    let queued_us = threads.of(division.database(), &[ThreadState::Queue]).total_ns as f64 / 1000.0;
    let of_read = |us: f64| us * waterfall.operations as f64 / reads as f64;
    let known = |part| waterfall.part(part).map(of_read);
    let device_us = known(PartOfTime::Device).filter(|&us| us <= read_us)?;
    let above_us = known(PartOfTime::FileSystem)? + known(PartOfTime::BlockQueue)?;
    let room_us = (read_us - device_us - above_us).max(0.0);
    let run_queue_us = (queued_us / reads as f64).min(room_us);
    Some(ReadParts { device_us, run_queue_us, rest_us: read_us - device_us - run_queue_us })
}

/// Divides the time of the operations that ended in a second.
pub fn of_second(run: &Run, second: &Second) -> Option<Waterfall> {
    let interval = run.details.os.as_ref()?.second(second.from_s, second.length_s)?;
    let threads = interval.threads.as_ref()?;
    let mut time_us = 0.0;
    for latency in second.latency_us.values() {
        time_us += latency.count as f64 * latency.mean.unwrap_or(0.0);
    }
    let operations = second.ops.total;
    (operations >= OPERATIONS_MIN)
        .then(|| divided(run, (operations, time_us), threads, interval.requests.as_ref()))
}

/// Processor time of the threads that did the database's work, in seconds, and their layer. None
/// if threads were not timed.
pub(super) fn processor_s(run: &Run) -> Option<(f64, &'static str)> {
    let threads = run.details.os.as_ref()?.whole.sum.threads.as_ref()?;
    let division = Division { executed: executed(run), operations: 1, threads };
    let states = [ThreadState::Processor, ThreadState::ReadProcessor];
    let times = threads.of(division.database(), &states);
    Some((times.total_ns as f64 / 1e9, division.layer()))
}

/// The side that executes operations.
pub(super) fn executed(run: &Run) -> OperationSide {
    let target = &run.details.target;
    let reported = target.settings.iter().find(|(name, _)| name == "loop");
    let reported = reported.and_then(|(_, value)| value.split(':').next());
    let side = reported.or_else(|| run.summary.setting("loop")?.as_str());
    match side {
        _ if target.in_process => OperationSide::InPetal,
        Some(side) if side.eq_ignore_ascii_case("client") => OperationSide::ByRequest,
        _ => OperationSide::InServer,
    }
}

fn divided(
    run: &Run,
    (operations, time_us): (u64, f64),
    threads: &ThreadTimes,
    requests: Option<&Requests>,
) -> Waterfall {
    if run.io_depth() > 1.0 {
        return Waterfall::unknown("a session has several operations in flight");
    }
    if !run.summary.hosts.is_empty() {
        return Waterfall::unknown("several hosts drove the run");
    }
    if operations == 0 || time_us <= 0.0 {
        return Waterfall::unknown("no operation ended");
    }
    let parts = Division { executed: executed(run), operations, threads };
    let parts = parts.parts(run.details.os.as_ref(), requests);
    let sum_us: f64 = parts.iter().filter_map(|part| part.us).sum();
    let operation_us = time_us / operations as f64;
    Waterfall {
        operations,
        operation_us: Some(operation_us),
        parts,
        gap_us: Some(operation_us - sum_us),
        why_unknown: None,
    }
}

struct Division<'a> {
    executed: OperationSide,
    operations: u64,
    threads: &'a ThreadTimes,
}

impl Division<'_> {
    /// The threads that did the database's work. A relay between petal and the server hides which
    /// of the server's threads serve sessions.
    fn database(&self) -> ThreadRole {
        let spans = self.threads.of(ThreadRole::Server, &[ThreadState::Span]);
        match self.executed {
            OperationSide::InPetal => ThreadRole::Session,
            _ if spans.count() > 0 => ThreadRole::Server,
            _ => ThreadRole::Others,
        }
    }

    fn layer(&self) -> &'static str {
        match self.database() {
            ThreadRole::Session => SESSIONS,
            ThreadRole::Server => SERVER,
            ThreadRole::Others => {
                "all threads of the server that receive: a relay hides whose they are"
            }
        }
    }

    fn parts(&self, seen: Option<&HostSeen>, requests: Option<&Requests>) -> Vec<WaterfallPart> {
        use ThreadState::{Other, Processor, Queue, Wake, Write};
        let database = self.database();
        let of = |states: &[ThreadState]| self.threads.of(database, states);
        let layer = self.layer();
        let by_request = self.executed == OperationSide::ByRequest;
        let with_petals = |times: TimeBuckets, state| match by_request {
            true => times.plus(&self.threads.of(ThreadRole::Session, &[state])),
            false => times,
        };
        let both = if by_request { "petal's and the server's threads" } else { layer };
        // The server's clock begins when it has the request.
        let queued = if by_request { of(&[Queue, Wake]) } else { of(&[Queue]) };
        let mut parts = vec![
            self.petal(),
            self.wire(database),
            self.events(PartOfTime::Processor, &of(&[Processor]), layer),
            self.events(PartOfTime::RunQueue, &with_petals(queued, Queue), both),
        ];
        parts.extend(self.reads(database, seen, requests));
        parts.push(self.events(PartOfTime::Writes, &of(&[Write]), layer));
        parts.push(self.events(PartOfTime::Other, &with_petals(of(&[Other]), Other), both));
        parts
    }

    fn petal(&self) -> WaterfallPart {
        let part = PartOfTime::Petal;
        match self.executed {
            OperationSide::InPetal => unknown(part, "in the processor time: one thread does both"),
            OperationSide::InServer => unknown(part, "in no operation: the server times them"),
            OperationSide::ByRequest => {
                let times = self.threads.of(ThreadRole::Session, &[ThreadState::Processor]);
                self.events(part, &times, SESSIONS)
            }
        }
    }

    /// The time in which petal waits for the server, less the time that the server had.
    fn wire(&self, database: ThreadRole) -> WaterfallPart {
        let part = PartOfTime::Wire;
        match self.executed {
            OperationSide::InPetal => unknown(part, "the database is in petal's process"),
            OperationSide::InServer => unknown(part, "in no operation: the server times them"),
            OperationSide::ByRequest => {
                let waited = self.threads.of(ThreadRole::Session, &[ThreadState::Socket]);
                let server = self.threads.of(database, &[ThreadState::Span, ThreadState::Wake]);
                let layer = "petal's sockets, less the server's time for its requests";
                let ns = waited.total_ns as f64 - server.total_ns as f64;
                difference(part, ns / 1000.0 / self.operations as f64, layer)
            }
        }
    }

    /// Reads by layer: the file system has the rest of the devices and their queues.
    fn reads(
        &self,
        database: ThreadRole,
        seen: Option<&HostSeen>,
        requests: Option<&Requests>,
    ) -> Vec<WaterfallPart> {
        use PartOfTime::{BlockQueue, Device, FileSystem, Reads};
        let states = [ThreadState::ReadProcessor, ThreadState::ReadWait];
        let calls = self.threads.of(database, &states);
        let undivided = |why: &str| {
            let mut parts: Vec<WaterfallPart> =
                [FileSystem, BlockQueue, Device].map(|part| unknown(part, why)).into();
            parts.push(self.events(Reads, &calls, "calls that read files"));
            parts
        };
        let Some((seen, requests)) = seen.zip(requests) else {
            return undivided("single requests were not timed");
        };
        let devices = seen.timed_devices();
        let own = requests.times.iter().filter(|times| {
            times.kind == RequestKind::Read && devices.contains(&times.device.as_str())
        });
        if own.clone().any(|times| times.of_database.is_none()) {
            return undivided("the requests of the database are not known");
        }
        let (mut queue, mut service) = (TimeBuckets::default(), TimeBuckets::default());
        for times in own.filter(|times| times.of_database == Some(true)) {
            queue = queue.plus(&times.queue);
            service = service.plus(&times.service);
        }
        if service.count() > 0 && queue.count() == 0 {
            return undivided("the kernel keeps no times of the queue (queue/iostats)");
        }
        let Some(rest_ns) = calls.total_ns.checked_sub(queue.total_ns + service.total_ns) else {
            return undivided("requests took longer than the calls: they overlapped");
        };
        let rest_us = rest_ns as f64 / 1000.0 / self.operations as f64;
        vec![
            difference(FileSystem, rest_us, "calls that read files, less the block layer"),
            self.events(BlockQueue, &queue, BLOCK_LAYER),
            self.events(Device, &service, BLOCK_LAYER),
        ]
    }

    fn events(&self, part: PartOfTime, times: &TimeBuckets, layer: &str) -> WaterfallPart {
        let summary = times.summary();
        WaterfallPart {
            part,
            us: Some(times.total_ns as f64 / 1000.0 / self.operations as f64),
            events: Some(summary.count),
            p99_us: summary.p99,
            layer: layer.to_owned(),
        }
    }
}

fn difference(part: PartOfTime, us: f64, layer: &str) -> WaterfallPart {
    let layer = layer.to_owned();
    WaterfallPart { part, us: Some(us), events: None, p99_us: None, layer }
}

fn unknown(part: PartOfTime, why: &str) -> WaterfallPart {
    WaterfallPart { part, us: None, events: None, p99_us: None, layer: why.to_owned() }
}

/// Judges if the parts add up to the operation's time.
pub(super) fn gap(run: &Run) -> Judgement {
    let headline = run.headline_window();
    let waterfall = known(of(&headline.run), "threads were not timed")?;
    if let Some(why) = waterfall.why_unknown {
        return super::judgement::unknown(why);
    }
    let figures = waterfall.operation_us.zip(waterfall.gap_us);
    let (operation_us, gap_us) = known(figures, "no operation ended")?;
    let wire_us = waterfall.part(PartOfTime::Wire).filter(|&us| us < -GAP_SHARE_MAX * operation_us);
    clear_if(gap_us.abs() <= GAP_SHARE_MAX * operation_us && wire_us.is_none())?;
    let figures = json!({ "operation_us": operation_us, "gap_us": gap_us, "wire_us": wire_us });
    let percent = |us: f64| decimal(us.abs() / operation_us * 100.0, 0);
    let operation = decimal(operation_us, 1);
    let message = match wire_us {
        Some(wire_us) => format!(
            "the server had {} us ({} %) more for an operation than petal waited for it: it \
             worked on after its replies, or for others",
            decimal(-wire_us, 1),
            percent(wire_us)
        ),
        None if gap_us > 0.0 => format!(
            "{} us ({} %) of an operation's {operation} us are in no part of its \
             waterfall",
            decimal(gap_us, 1),
            percent(gap_us)
        ),
        None => format!(
            "the parts of an operation's waterfall are {} us ({} %) more than its \
             {operation} us: threads also worked or waited between operations",
            decimal(-gap_us, 1),
            percent(gap_us)
        ),
    };
    warning(message, "Do not add up the waterfall's parts; each part alone is still measured.")
        .with(figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_host::os::threads::StateTimes;
    use petal_record::fixture;

    fn times(total_ns: u64) -> TimeBuckets {
        TimeBuckets { total_ns, buckets: vec![(total_ns, 1)] }
    }

    fn state(role: ThreadRole, state: ThreadState, us: u64) -> StateTimes {
        StateTimes { role, state, time: times(us * 1000) }
    }

    /// A session that waits 500 us for its server, which has 300 us of them.
    fn by_request() -> ThreadTimes {
        use ThreadRole::{Others, Server, Session};
        use ThreadState::{Other, Processor, Queue, ReadProcessor, ReadWait, Socket, Span, Wake};
        let times = vec![
            state(Session, Processor, 30),
            state(Session, Queue, 20),
            state(Session, Socket, 500),
            state(Server, Wake, 60),
            state(Server, Span, 240),
            state(Server, Processor, 40),
            state(Server, Queue, 10),
            state(Server, ReadProcessor, 50),
            state(Server, ReadWait, 130),
            state(Server, Other, 10),
            state(Others, Span, 999),
            state(Others, Processor, 999),
        ];
        ThreadTimes { times, lost: 0 }
    }

    fn client_run(side: &str) -> Run {
        let mut run = fixture::mixed_run();
        fixture::time_requests(&mut run);
        run.details.target.in_process = false;
        run.summary.settings.insert("loop".into(), side.into());
        run
    }

    fn reads(service_us: u64, queue_us: u64) -> Requests {
        let mut run = fixture::mixed_run();
        fixture::time_requests(&mut run);
        let mut requests = run.details.os.unwrap().whole.sum.requests.unwrap();
        requests.times.retain(|times| times.kind == RequestKind::Read);
        requests.times[0].service = times(service_us * 1000);
        requests.times[0].queue = times(queue_us * 1000);
        requests
    }

    fn us(waterfall: &Waterfall, part: PartOfTime) -> Option<f64> {
        waterfall.part(part).map(|us| (us * 10.0).round() / 10.0)
    }

    #[test]
    fn a_request_is_divided_among_both_sides_and_the_wire() {
        let run = client_run("CLIENT");
        let all = divided(&run, (1, 550.0), &by_request(), Some(&reads(120, 15)));
        use PartOfTime::*;
        let expected = [
            (Petal, Some(30.0)),
            (Wire, Some(200.0)),
            (Processor, Some(40.0)),
            (RunQueue, Some(90.0)),
            (FileSystem, Some(45.0)),
            (BlockQueue, Some(15.0)),
            (Device, Some(120.0)),
            (Reads, None),
            (Writes, Some(0.0)),
            (Other, Some(10.0)),
        ];
        for (part, expected) in expected {
            assert_eq!(us(&all, part), expected, "{part:?} of {all:?}");
        }
        assert!(all.gap_us.unwrap().abs() < 1e-6, "{all:?}");
        let late = divided(&run, (1, 700.0), &by_request(), Some(&reads(120, 15)));
        assert!((late.gap_us.unwrap() - 150.0).abs() < 1e-6, "the sum can fail");
        let two = divided(&run, (2, 550.0), &by_request(), Some(&reads(120, 15)));
        assert_eq!((us(&two, Wire), two.operation_us), (Some(100.0), Some(275.0)));
    }

    #[test]
    fn a_server_that_times_its_operations_has_no_wire_in_them() {
        let run = client_run("SERVER");
        let all = divided(&run, (1, 240.0), &by_request(), Some(&reads(120, 15)));
        assert_eq!((us(&all, PartOfTime::Petal), us(&all, PartOfTime::Wire)), (None, None));
        assert_eq!(us(&all, PartOfTime::RunQueue), Some(10.0), "before its clock begins");
        assert!(all.gap_us.unwrap().abs() < 1e-6, "{all:?}");
    }

    #[test]
    fn threads_behind_a_relay_are_all_counted_and_named() {
        let run = client_run("CLIENT");
        let mut threads = by_request();
        threads.times.retain(|times| times.role != ThreadRole::Server);
        let all = divided(&run, (1, 550.0), &threads, None);
        let processor = all.parts.iter().find(|part| part.part == PartOfTime::Processor).unwrap();
        assert!(processor.layer.contains("relay"), "{processor:?}");
        assert_eq!(processor.us, Some(999.0));
    }

    #[test]
    fn reads_that_overlap_or_were_not_timed_are_not_divided() {
        let run = client_run("CLIENT");
        for (requests, why) in
            [(Some(reads(180, 1)), "overlapped"), (None, "single requests were not timed")]
        {
            let all = divided(&run, (1, 550.0), &by_request(), requests.as_ref());
            assert_eq!(us(&all, PartOfTime::Reads), Some(180.0));
            assert_eq!(all.part(PartOfTime::Device), None);
            let device = all.parts.iter().find(|part| part.part == PartOfTime::Device).unwrap();
            assert!(device.layer.contains(why), "{device:?}");
            assert!(all.gap_us.unwrap().abs() < 1e-6, "{all:?}");
        }
        let mut unseen = reads(100, 1);
        unseen.times[0].of_database = None;
        let all = divided(&run, (1, 550.0), &by_request(), Some(&unseen));
        assert_eq!(all.part(PartOfTime::BlockQueue), None);
    }

    #[test]
    fn operations_in_flight_together_and_unwatched_threads_have_no_waterfall() {
        let mut run = fixture::mixed_run();
        assert_eq!(of(&run), None, "nobody asked for it");
        run.summary.settings.insert("waterfall".into(), true.into());
        assert!(of(&run).unwrap().why_unknown.unwrap().contains("no second"));
        run.details.os.as_mut().unwrap().threads_unseen = Some("it needs root".into());
        assert_eq!(of(&run).unwrap().why_unknown.unwrap(), "it needs root");
        let seen = run.details.os.take();
        assert_eq!(of(&run).unwrap().why_unknown.unwrap(), "NO_OS_PERF_DATA=TRUE");
        run.details.os = seen;
        fixture::time_threads(&mut run, 1.0);
        assert_eq!(of(&run).unwrap().why_unknown, None);
        run.summary.settings.insert("io_depth".into(), 8.into());
        let all = of(&run).unwrap();
        assert!(all.why_unknown.unwrap().contains("in flight") && all.parts.is_empty());
    }

    #[test]
    fn a_gap_over_five_percent_is_a_finding_with_its_size() {
        let found = |share: f64| {
            let mut run = fixture::mixed_run();
            fixture::time_threads(&mut run, share);
            crate::judge(&run).into_iter().find(|finding| finding.id == "waterfall-gap")
        };
        for share in [0.97, 1.0, 1.04] {
            assert_eq!(found(share), None, "{share}");
        }
        let (less, more) = (found(0.9).unwrap().message, found(1.2).unwrap().message);
        assert!(less.contains("(10 %)") && less.contains("in no part"), "{less}");
        assert!(more.contains("(20 %)") && more.contains("more than its"), "{more}");
    }

    #[test]
    fn a_second_has_its_own_waterfall() {
        let mut run = fixture::mixed_run();
        fixture::time_threads(&mut run, 1.0);
        let second = run.details.timeline[3].clone();
        let all = of_second(&run, &second).unwrap();
        let sum_us: f64 = all.parts.iter().filter_map(|part| part.us).sum();
        let operation_us = all.operation_us.unwrap();
        assert!((sum_us + all.gap_us.unwrap() - operation_us).abs() < 1e-6, "{all:?}");
        let few = Second { ops: Default::default(), ..second };
        assert_eq!(of_second(&run, &few), None);
    }
}
