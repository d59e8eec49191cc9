//! Hosts that are threads here: what they tell each other, and runs that they drive together.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::*;
use crate::engine::scripted::{Script, Scripted};
use crate::engine::{Caller, Silent};
use crate::record::{Run, Status, load};
use crate::runner::series::Series;
use crate::runner::{Context, RunError};
use crate::settings::Settings;

type Mail = BTreeMap<(u32, u32, Tag), VecDeque<Vec<u8>>>;

/// The ranks of one process.
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

    fn send(&self, to: u32, tag: Tag, bytes: &[u8], _: &Wait<'_>) -> Result<(), PeerError> {
        let mut mail = self.mail.lock();
        mail.entry((self.rank, to, tag)).or_default().push_back(bytes.to_vec());
        Ok(())
    }

    fn receive(&self, from: u32, tag: Tag, wait: &Wait<'_>) -> Result<Vec<u8>, PeerError> {
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

    fn arrived(&self, tag: Tag) -> Result<Option<u32>, PeerError> {
        let mail = self.mail.lock();
        let come = mail
            .iter()
            .find(|((_, to, of), all)| (*to, *of) == (self.rank, tag) && !all.is_empty());
        Ok(come.map(|((from, _, _), _)| *from))
    }

    fn barrier(&self, _: &Wait<'_>) -> Result<(), PeerError> {
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
        os_perf_data: false,
        out: out.to_owned(),
        ..Settings::default()
    }
}

fn script() -> Script {
    Script { latency: [Duration::from_millis(1); 3], ..Script::default() }
}

type Ended = Result<Run, RunError>;

/// Each rank's run, by settings and a script of its own.
fn ran(size: u32, of: impl Fn(u32) -> (Settings, Script) + Sync) -> Vec<Ended> {
    let ranks = Threads::ranks(size);
    let one = |peers: Arc<Threads>| {
        let (settings, script) = of(peers.rank);
        let signals: Arc<AtomicU8> = Arc::default();
        let hosts = Together::new(peers, signals.clone());
        let caller = Caller { signals, note: Arc::new(|_| ()) };
        let context = Context { caller, watch: &Silent };
        let engine = Arc::new(Scripted::in_memory(script, 10_000));
        let mut series = Series::new(engine, settings, &context)?;
        series.join(&hosts)?;
        Ok(series.run_once(1, Some("run"))?.run)
    };
    thread::scope(|scope| {
        let all: Vec<_> = ranks.into_iter().map(|rank| scope.spawn(|| one(rank))).collect();
        all.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
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
    let wait = Wait::at_most(Duration::from_millis(50), &interrupted);
    let error = ranks[0].receive(1, Tag::Ready, &wait).unwrap_err();
    assert_eq!(error, PeerError::Silent(Duration::from_millis(50)));
    // And a signal ends any wait for others.
    let signals = Arc::new(AtomicU8::new(1));
    let hosts = Together::new(ranks[1].clone(), signals.clone());
    assert_eq!(hosts.agree(Ok(())).unwrap_err(), PeerError::Interrupted);
    assert_eq!(signals.load(Ordering::Relaxed), 1);
}

#[test]
fn seconds_of_all_hosts_are_shown_as_one() {
    use crate::record::{Ops, Second};
    let ranks = Threads::ranks(3);
    let hosts: Vec<Together> =
        ranks.iter().map(|rank| Together::new(rank.clone(), Arc::default())).collect();
    let second = |total: u64| Second {
        length_s: 1.0,
        ops: Ops { total, ..Ops::default() },
        ..Second::default()
    };
    hosts[1].tell_second(&second(10));
    hosts[2].tell_second(&second(200));
    hosts[2].tell_second(&second(300));
    let come: Vec<(u32, u64)> = hosts[0]
        .seconds()
        .into_iter()
        .map(|(share, second)| (share.number, second.ops.total))
        .collect();
    assert_eq!(come, [(2, 10), (3, 200), (3, 300)]);
    assert!(hosts[0].seconds().is_empty());
}
