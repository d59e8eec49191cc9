//! Tests of hosts that are threads here: their messages, and runs that they drive together.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::*;
use crate::series::RunSeries;
use crate::{OpenEngine, RunError, Watch, WorkContext};
use petal_engine::{Caller, Progress, ProgressUnit, Silent};
use petal_record::timeline::Tally;
use petal_record::{Ops, Run, Second, Status, load};
use petal_scripted::{Script, Scripted};
use petal_settings::Settings;

type Mail = BTreeMap<(u32, u32, MessageTag), VecDeque<Vec<u8>>>;

/// Ranks of one process.
struct Threads {
    rank: u32,
    size: u32,
    mail: Arc<Mutex<Mail>>,
    meeting: Arc<Barrier>,
}

impl Threads {
    fn ranks(size: u32) -> Vec<Arc<Self>> {
        let (mail, meeting) = (Arc::default(), Arc::new(Barrier::new(size as usize)));
        let rank = |rank| Self { rank, size, mail: Arc::clone(&mail), meeting: meeting.clone() };
        (0..size).map(|at| Arc::new(rank(at))).collect()
    }
}

impl Peers for Threads {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn send(
        &self,
        to: u32,
        tag: MessageTag,
        bytes: &[u8],
        _: &PeerWait<'_>,
    ) -> Result<(), PeerError> {
        let mut mail = self.mail.lock();
        mail.entry((self.rank, to, tag)).or_default().push_back(bytes.to_vec());
        Ok(())
    }

    fn receive(
        &self,
        from: u32,
        tag: MessageTag,
        wait: &PeerWait<'_>,
    ) -> Result<Vec<u8>, PeerError> {
        loop {
            let come =
                self.mail.lock().get_mut(&(from, self.rank, tag)).and_then(VecDeque::pop_front);
            if let Some(bytes) = come {
                return Ok(bytes);
            }
            wait.check()?;
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn arrived(&self, tag: MessageTag) -> Result<Option<u32>, PeerError> {
        let mail = self.mail.lock();
        let come = mail
            .iter()
            .find(|((_, to, of), all)| (*to, *of) == (self.rank, tag) && !all.is_empty());
        Ok(come.map(|((from, _, _), _)| *from))
    }

    fn barrier(&self, _: &PeerWait<'_>) -> Result<(), PeerError> {
        self.meeting.wait();
        Ok(())
    }
}

fn settings(out: &Path) -> Settings {
    Settings {
        schemas: Some(4),
        threads_per_schema: 2,
        update_pct: 20,
        work_loop: 200,
        run_time: Duration::from_secs(5),
        os_perf_data: false,
        out: out.to_owned(),
        ..Settings::default()
    }
}

fn script() -> Script {
    Script { latency: [Duration::from_millis(1); 3], ..Script::default() }
}

fn caller(signals: Arc<AtomicU8>) -> Caller {
    Caller { signals, note: Arc::new(|_| ()) }
}

type Ended = Result<Run, RunError>;

/// Runs each rank with its settings and script.
fn ran(size: u32, of: impl Fn(u32) -> (Settings, Script) + Sync) -> Vec<Ended> {
    ran_by(Threads::ranks(size), of, &Silent)
}

/// `shown` is the watch of the first rank.
fn ran_by<P: Peers + 'static>(
    ranks: Vec<Arc<P>>,
    of: impl Fn(u32) -> (Settings, Script) + Sync,
    shown: &dyn Watch,
) -> Vec<Ended> {
    let one = |peers: Arc<P>| {
        let (settings, script) = of(peers.rank());
        let caller = caller(Arc::default());
        let hosts = Together::new(peers, caller.clone()).with_limits(LIMITS);
        let of_all = CombinedProgress::new(&hosts, shown);
        let watch: &dyn Watch = if hosts.is_first() { &of_all } else { &Silent };
        let engines: OpenEngine = Scripted::open;
        let context = WorkContext { caller, engines, watch, hosts: Some(&hosts) };
        let engine = Arc::new(Scripted::in_memory(script, 10_000));
        let mut series = RunSeries::new(engine, settings, &context)?;
        series.join(&hosts)?;
        Ok(series.run_once(1, Some("run"))?.run)
    };
    thread::scope(|scope| {
        let all: Vec<_> = ranks.into_iter().map(|rank| scope.spawn(|| one(rank))).collect();
        all.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// Timeouts of these tests: a live thread answers sooner.
const LIMITS: ExchangeLimits = {
    let seconds = Duration::from_secs(10);
    ExchangeLimits {
        ready: seconds,
        trigger: seconds,
        end: seconds,
        record: seconds,
        part: seconds,
    }
};

/// A rank that dies when it would send its n-th message of a kind: from then on it neither sends
/// nor receives.
struct Mortal {
    rank: Arc<Threads>,
    dies: Option<(MessageTag, u32)>,
    sent: AtomicU32,
    is_dead: AtomicBool,
}

impl Mortal {
    /// Returns three ranks, the last of which dies at that message.
    fn ranks(dies: (MessageTag, u32)) -> Vec<Arc<Self>> {
        let mortal = |rank: Arc<Threads>| Self {
            dies: (rank.rank == 2).then_some(dies),
            rank,
            sent: AtomicU32::new(0),
            is_dead: AtomicBool::new(false),
        };
        Threads::ranks(3).into_iter().map(|rank| Arc::new(mortal(rank))).collect()
    }

    fn check(&self) -> Result<(), PeerError> {
        let is_dead = self.is_dead.load(Ordering::Relaxed);
        if is_dead { Err(PeerError::Failed("this rank is dead".into())) } else { Ok(()) }
    }
}

impl Peers for Mortal {
    fn rank(&self) -> u32 {
        self.rank.rank()
    }

    fn size(&self) -> u32 {
        self.rank.size()
    }

    fn send(
        &self,
        to: u32,
        tag: MessageTag,
        bytes: &[u8],
        wait: &PeerWait<'_>,
    ) -> Result<(), PeerError> {
        if let Some((last, count)) = self.dies
            && tag == last
            && self.sent.fetch_add(1, Ordering::Relaxed) + 1 == count
        {
            self.is_dead.store(true, Ordering::Relaxed);
        }
        self.check()?;
        self.rank.send(to, tag, bytes, wait)
    }

    fn receive(
        &self,
        from: u32,
        tag: MessageTag,
        wait: &PeerWait<'_>,
    ) -> Result<Vec<u8>, PeerError> {
        self.check()?;
        self.rank.receive(from, tag, wait)
    }

    fn arrived(&self, tag: MessageTag) -> Result<Option<u32>, PeerError> {
        self.check()?;
        self.rank.arrived(tag)
    }

    fn barrier(&self, wait: &PeerWait<'_>) -> Result<(), PeerError> {
        self.check()?;
        self.rank.barrier(wait)
    }
}

#[test]
fn the_first_host_has_one_record_of_all() {
    let dir = tempfile::tempdir().unwrap();
    let runs = ran(4, |_| (settings(dir.path()), script()));
    let merged = runs[0].as_ref().unwrap();
    assert_eq!(merged.summary.status, Status::Complete);
    assert_eq!((merged.summary.sessions, merged.summary.ops.total), (8, 1600));
    assert_eq!(merged.summary.latency_us["select"].count, 1280);
    assert_eq!(merged.summary.hosts.len(), 4);
    let seeds: Vec<u64> = runs.iter().map(|run| run.as_ref().unwrap().summary.seed).collect();
    assert!(seeds.iter().all(|&seed| seed == seeds[0]), "{seeds:?}");
    // Every share keeps its own record, and the first host has all of them.
    let names = |path: &Path| {
        let entries = std::fs::read_dir(path).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let own = names(dir.path());
    assert_eq!(own.iter().filter(|name| name.contains("share")).count(), 0, "by --name: {own:?}");
    let first = own.iter().find(|name| dir.path().join(name).join("share-1").is_dir()).unwrap();
    let first = dir.path().join(first);
    for share in 2..=4 {
        let run = load(&first.join(format!("share-{share}"))).unwrap();
        assert_eq!(run.summary.share.unwrap().share.number, share);
    }
    assert_eq!(load(&first).unwrap().summary.ops.total, 1600);
}

#[test]
fn a_host_that_cannot_run_calls_all_of_them_off() {
    let dir = tempfile::tempdir().unwrap();
    let runs = ran(3, |rank| {
        // Session 3 is the third host's.
        let refused = (rank == 2).then_some(3);
        (settings(dir.path()), Script { refused, ..script() })
    });
    for run in &runs[..2] {
        let error = run.as_ref().unwrap_err().to_string();
        assert!(error.contains("share 3 of 3") && error.contains("refused"), "{error}");
    }
    assert!(runs[2].as_ref().unwrap_err().to_string().contains("session 3"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was measured");
}

#[test]
fn another_plan_is_refused_before_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let runs = ran(2, |rank| {
        let own = settings(dir.path());
        (Settings { update_pct: if rank == 1 { 50 } else { 20 }, ..own }, script())
    });
    for run in runs {
        let error = run.unwrap_err().to_string();
        assert!(error.contains("UPDATE_PCT is \"50\" here and \"20\""), "{error}");
    }
}

#[test]
fn a_silent_host_is_given_up_in_time() {
    let ranks = Threads::ranks(2);
    let interrupted = || false;
    let wait = PeerWait::at_most(Duration::from_millis(50), &interrupted);
    let error = ranks[0].receive(1, MessageTag::Ready, &wait).unwrap_err();
    assert_eq!(error, PeerError::Silent(Duration::from_millis(50)));
    // A signal ends any wait for others.
    let signals = Arc::new(AtomicU8::new(1));
    let hosts = Together::new(ranks[1].clone(), caller(signals.clone()));
    assert_eq!(hosts.agree(Ok(())).unwrap_err(), PeerError::Interrupted);
    assert_eq!(signals.load(Ordering::Relaxed), 1);
}

#[test]
fn sessions_that_hosts_do_not_share_evenly_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let shown = Shown::default();
    let ten = |_| {
        let ten = Settings {
            schemas: Some(10),
            threads_per_schema: 1,
            work_loop: 20,
            ..settings(dir.path())
        };
        (ten, script())
    };
    ran_by(Threads::ranks(4), ten, &shown);
    assert_eq!(shown.1.load(Ordering::Relaxed), 10);
}

/// Keeps the newest second and totals that it is shown, and the sessions at the trigger.
#[derive(Default)]
struct Shown(Mutex<Option<(Second, Tally)>>, AtomicU32);

impl Progress for Shown {
    fn phase(&self, _: &str, _: u64, _: ProgressUnit) {}
    fn advance(&self, _: u64) {}
    fn note(&self, _: &str) {}
}

impl Watch for Shown {
    fn triggered(&self, sessions: u32, _: f64) {
        self.1.store(sessions, Ordering::Relaxed);
    }

    fn second(&self, second: &Second, so_far: &Tally, _: f64) {
        *self.0.lock() = Some((second.clone(), so_far.clone()));
    }
}

#[test]
fn seconds_and_totals_of_all_hosts_are_shown_as_one() {
    let ranks = Threads::ranks(3);
    let hosts: Vec<Together> =
        ranks.iter().map(|rank| Together::new(rank.clone(), caller(Arc::default()))).collect();
    let second = |from_s: f64, total: u64| Second {
        from_s,
        length_s: 1.0,
        sessions: 2,
        ops: Ops { total, ..Ops::default() },
        ..Second::default()
    };
    let totals = |ops: u64| Tally {
        ops: [ops, 0, 0],
        errors: [("busy".to_owned(), ops)].into(),
        ..Tally::default()
    };
    let shown = Shown::default();
    let send = |rank: usize, from_s: f64, ops: u64, all: u64| {
        let watch = ProgressShare { hosts: &hosts[rank], shown: &shown };
        watch.second(&second(from_s, ops), &totals(all), 0.0);
    };
    let combined = CombinedProgress::new(&hosts[0], &shown);
    let look = |from_s: f64| {
        let own = Tally { service: [Some(Box::default()), None, None], ..totals(1) };
        combined.second(&second(from_s, 1), &own, 0.0);
        let (second, totals) = shown.0.lock().clone().unwrap();
        assert!(totals.service[0].is_none(), "a histogram of one host is not of all");
        (second.ops.total, second.sessions, totals.ops[0], totals.errors["busy"])
    };
    send(1, 0.0, 10, 10);
    send(2, 0.0, 200, 200);
    send(2, 1.0, 300, 500);
    assert_eq!(look(1.0), (311, 6, 511, 511));
    // The second host is silent: its rate and sessions end, and its totals stay.
    send(2, 4.0, 300, 1400);
    assert_eq!(look(4.0), (301, 4, 1411, 1411));
}

#[test]
fn a_signal_on_one_host_reaches_all_by_way_of_the_first() {
    let signals: Vec<Arc<AtomicU8>> = (0..3).map(|_| Arc::default()).collect();
    let hosts: Vec<Together> = Threads::ranks(3)
        .iter()
        .zip(&signals)
        .map(|(rank, own)| Together::new(rank.clone(), caller(own.clone())).with_limits(LIMITS))
        .collect();
    let stopped = || signals.iter().map(|own| own.load(Ordering::Relaxed)).collect::<Vec<_>>();
    signals[2].store(1, Ordering::Relaxed);
    assert!(hosts[2].ended(Instant::now()));
    hosts[1].send_second(&HostSecond::default());
    assert_eq!(stopped(), [0, 0, 1]);
    hosts[0].seconds();
    assert_eq!(stopped(), [1, 0, 1]);
    // The first host reports the end of its own sessions, and waits for the others.
    thread::scope(|scope| {
        scope.spawn(|| assert!(hosts[0].ended(Instant::now())));
        while stopped() != [1, 1, 1] {
            hosts[1].send_second(&HostSecond::default());
        }
        assert!(hosts[1].ended(Instant::now()));
    });
}

#[test]
fn a_host_that_dies_before_the_trigger_ends_all_of_them() {
    let dir = tempfile::tempdir().unwrap();
    // It had joined, and was about to report that it is connected.
    let runs = ran_by(
        Mortal::ranks((MessageTag::Ready, 3)),
        |_| (settings(dir.path()), script()),
        &Silent,
    );
    for run in &runs[..2] {
        let error = run.as_ref().unwrap_err().to_string();
        assert!(error.contains("share 3 of 3: no answer from another host"), "{error}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was measured");
}

/// Checks the merged record, in which the third host's share is missing, and that host's folder,
/// which is complete.
fn incomplete(dies: (MessageTag, u32)) {
    let dir = tempfile::tempdir().unwrap();
    let runs = ran_by(
        Mortal::ranks(dies),
        |rank| {
            (Settings { out: dir.path().join(rank.to_string()), ..settings(dir.path()) }, script())
        },
        &Silent,
    );
    let run = runs[0].as_ref().unwrap();
    assert_eq!((run.summary.status, run.summary.hosts.len()), (Status::Incomplete, 3));
    assert_eq!(run.summary.hosts[2].status, None);
    assert!(run.summary.finding("incomplete-hosts").is_some());
    // With the folder on that host, the merge is complete.
    let only = |rank: &str| {
        let mut entries = std::fs::read_dir(dir.path().join(rank)).unwrap();
        entries.next().unwrap().unwrap().path()
    };
    let shares = ["share-1", "share-2"].map(|share| only("0").join(share));
    let all = [&shares[..], &[only("2")]].concat();
    let whole = crate::merge::merge(&all, dir.path(), "merged").unwrap().run;
    assert_eq!((whole.summary.status, whole.summary.ops.total), (Status::Complete, 1600));
}

#[test]
fn a_host_that_dies_in_the_run_leaves_an_incomplete_record() {
    incomplete((MessageTag::Ended, 1));
}

#[test]
fn a_host_that_dies_while_its_record_is_gathered_leaves_an_incomplete_record() {
    incomplete((MessageTag::Record, 3));
}

#[test]
fn late_messages_of_an_earlier_run_are_ignored() {
    let ranks = Threads::ranks(2);
    let hosts: Vec<Together> = ranks
        .iter()
        .map(|rank| Together::new(rank.clone(), caller(Arc::default())).with_limits(LIMITS))
        .collect();
    // The second host was slow: its answer for the first run comes after the next run has begun.
    let refused = hosts[1].agree(Err("no room".into())).unwrap_err();
    assert_eq!(refused, PeerError::CalledOff("no room".into()));
    hosts[0].send_next(&"the second run").unwrap();
    assert_eq!(hosts[1].receive_next::<String>(LIMITS.ready).unwrap(), "the second run");
    thread::scope(|scope| {
        let other = scope.spawn(|| hosts[1].agree(Ok(())));
        assert_eq!(hosts[0].agree(Ok(())), Ok(()));
        assert_eq!(other.join().unwrap(), Ok(()));
    });
    assert!(!hosts[0].is_lost());
}
