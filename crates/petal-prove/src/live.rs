//! The work of `petal prove`: it loads a small set of data under a separate name, holds the server to
//! each promise, drops everything, and makes one text of it to send.

mod hide;
mod page;
mod subject;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{PROMISES, Promise, PromiseResult, Provable as _, SCHEMAS, TriedPromise, Unproved};
use petal_engine::server::data_name::PROOF;
use petal_engine::server_settings::alone;
use petal_engine::threads::Thread;
use petal_engine::{Caller, Engine, EngineError, ProgressUnit, Result, Silent, Stop};
use petal_settings::Settings;
use petal_settings::error::SettingErrors;

pub use page::Proofs;
use petal_run::{RunError, WorkContext};
use subject::LiveSubject;

/// Time for the last drop.
const DROP_LIMIT: Duration = Duration::from_secs(60);
/// Time for a server to come back for the last drop.
const RETURN_LIMIT: Duration = Duration::from_secs(20);
/// Time for the load and the promises: ten minutes, the drop included.
const LIMIT: Duration = Duration::from_secs(600 - DROP_LIMIT.as_secs());
/// Part of that time in which no further promise begins.
const LAST: Duration = Duration::from_secs(30);

/// Reads the settings of a run with these parameters.
pub type RunSettings<'a> =
    dyn Fn(&[(&'static str, &str)]) -> std::result::Result<Settings, SettingErrors> + 'a;

/// A server to prove, and how.
pub struct Request<'a> {
    pub settings: Settings,
    pub run_settings: &'a RunSettings<'a>,
    /// Folder for the records of runs.
    pub scratch: PathBuf,
    /// True if the user confirmed the licence for the database's own report.
    pub is_licensed: bool,
}

/// A promise, or a part of the work, with its result.
pub struct ProofOf {
    pub rule: String,
    pub how: &'static str,
    pub proof: PromiseResult,
    pub seconds: f64,
}

/// Holds the server to all promises, and drops the data whatever happens.
pub fn prove(request: &Request<'_>, context: &WorkContext<'_>) -> Result<Proofs, RunError> {
    let begin = Instant::now();
    let engine = context.open(&request.settings)?;
    if engine.server().is_none() {
        return Err(RunError::Setting(format!(
            "DB={}: petal prove is for servers; this database is in petal's own process, and the tests \
             of this build prove it",
            request.settings.db.redacted()
        )));
    }
    if let Some(server) = engine.server() {
        server.check_replicas()?;
    }
    let _alone = alone(engine.as_ref())?;
    let subject = LiveSubject::new(request, context, engine.as_ref())?;
    refuse_foreign(engine.as_ref(), context)?;
    let over = Arc::<AtomicBool>::default();
    watch_time(begin, &over, context)?;
    context.watch.phase("proving", PROMISES.len() as u64, ProgressUnit::Items);
    let mut proofs = Proofs::new(&request.settings);
    proofs.name_server(engine.as_ref());
    let loaded = load(&subject, engine.as_ref());
    let is_loaded = loaded.proof.is_ok();
    proofs.all.push(loaded);
    if is_loaded {
        proofs.describe(engine.as_ref());
        // A second proof of a server without a lock for changes drops nothing that is in use.
        let mut data_use = engine.begin_use(SCHEMAS).ok();
        let mut is_undropped = false;
        for promise in PROMISES {
            data_use = data_use.filter(|_| !promise.drops_data);
            let mut proof = try_promise(promise, &subject, begin, context);
            if is_undropped {
                let why = "a promise before it was refused, and its data are still there";
                proof.proof = proof.proof.or_else(|_| Ok(TriedPromise::NotTried(why.to_owned())));
            }
            is_undropped |= promise.drops_data && matches!(proof.proof, Err(Unproved::Refused(_)));
            proofs.all.push(proof);
            if let Some(ProofOf { proof: Err(Unproved::Stopped), .. }) = proofs.all.last() {
                break;
            }
        }
        proofs.all.push(own_report(request, &subject));
    }
    over.store(true, Ordering::Relaxed);
    drop(engine);
    proofs.all.push(clean_up(request, context)?);
    Ok(proofs)
}

/// Ends the work like a signal when the time is over: a server that hangs must not hold it up.
fn watch_time(begin: Instant, over: &Arc<AtomicBool>, context: &WorkContext<'_>) -> Result<()> {
    let (over, signals) = (Arc::clone(over), Arc::clone(&context.caller.signals));
    Thread::named("prove limit").start(move || {
        while !over.load(Ordering::Relaxed) {
            if begin.elapsed() > LIMIT {
                signals.fetch_add(1, Ordering::Relaxed);
                return;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    })?;
    Ok(())
}

/// Removes the data of an earlier, killed `petal prove`. Data by that name which are not petal's stay, and
/// the load refuses them.
fn refuse_foreign(engine: &dyn Engine, context: &WorkContext<'_>) -> Result<()> {
    let left = engine.drop_data()?;
    if !left.is_empty() {
        let count = left.len();
        context.watch.note(&format!("{count} objects of an earlier petal prove were dropped"));
    }
    Ok(())
}

fn load(subject: &LiveSubject<'_>, engine: &dyn Engine) -> ProofOf {
    let begin = Instant::now();
    let loaded = engine.load(&subject.plan(SCHEMAS), &Silent, &subject.stop());
    let proof = match loaded {
        Ok(loaded) => {
            let placed = loaded.schemas.iter().map(|schema| {
                let (number, placement) = (schema.schema.number, &schema.placement);
                format!("schema {number}: {} rows in {} blocks", placement.rows, placement.blocks)
            });
            Ok(TriedPromise::Held(placed.collect::<Vec<_>>().join("; ")))
        }
        Err(error) => Err(by_user(Unproved::by("Engine::load", error))),
    };
    let how = "the load's own proof, by the database's view of rows and blocks";
    ProofOf { rule: "two_schemas_load".to_owned(), how, proof, seconds: seconds(begin) }
}

/// An error that the user's own code raised, such as a guard of DDL, breaks no promise of petal's.
fn by_user(unproved: Unproved) -> Unproved {
    match unproved {
        Unproved::Broken { seen, .. } if hide::users_error(&seen).is_some() => {
            Unproved::Refused(seen)
        }
        other => other,
    }
}

fn seconds(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64()
}

fn try_promise(
    promise: &Promise,
    subject: &LiveSubject<'_>,
    begin: Instant,
    context: &WorkContext<'_>,
) -> ProofOf {
    let begun = Instant::now();
    let proof = match context.caller.is_interrupted() {
        true => Err(Unproved::Stopped),
        false if begin.elapsed() > LIMIT - LAST => {
            Ok(TriedPromise::NotTried("the ten minutes were nearly over".to_owned()))
        }
        false => (promise.check)(subject),
    };
    // A promise that a signal cut was not broken.
    let proof = proof.map_err(|unproved| match context.caller.is_interrupted() {
        true => Unproved::Stopped,
        false => by_user(unproved.judged(|code| subject.is_environment(code))),
    });
    context.watch.advance(1);
    ProofOf { rule: promise.rule.to_owned(), how: promise.how, proof, seconds: seconds(begun) }
}

/// The database's own report needs a licence, so that somebody has to confirm it.
fn own_report(request: &Request<'_>, subject: &LiveSubject<'_>) -> ProofOf {
    let begin = Instant::now();
    let proof = match (subject.has_own_report(), request.is_licensed) {
        (false, _) => {
            Ok(TriedPromise::NotTried("the database makes no report of a run".to_owned()))
        }
        (true, false) => Ok(TriedPromise::NotTried(
            "AWR may be used only with a licence of the Diagnostics Pack: --awr asks for it"
                .to_owned(),
        )),
        (true, true) => subject.run_with_report(),
    };
    let rule = "the_databases_own_report_covers_a_run".to_owned();
    ProofOf { rule, how: "AWR's snapshots around a run", proof, seconds: seconds(begin) }
}

/// Drops the data, also after a signal; the next signal ends it, or its time.
fn clean_up(request: &Request<'_>, context: &WorkContext<'_>) -> Result<ProofOf, RunError> {
    let begin = Instant::now();
    let later = Caller { signals: Arc::default(), note: Arc::clone(&context.caller.note) };
    let over = Arc::<AtomicBool>::default();
    hand_on(context, &later, &over)?;
    let last = WorkContext { caller: later, hosts: None, ..*context };
    let drop = || {
        let engine = last.open(&request.settings)?;
        if let Some(server) = engine.server() {
            // If it may not, the drop says who is in the way.
            let _ = server.end_left_sessions();
        }
        engine.drop_data()
    };
    let mut dropped = drop();
    // A server that restarts is back soon.
    while matches!(dropped, Err(EngineError::Environment(_)))
        && begin.elapsed() < RETURN_LIMIT
        && last.caller.signals.load(Ordering::Relaxed) == 0
    {
        std::thread::sleep(Duration::from_secs(1));
        dropped = drop();
    }
    let dropped = dropped.and_then(|_| last.open(&request.settings)?.loaded());
    over.store(true, Ordering::Relaxed);
    let proof = match dropped {
        Ok(left) if left.is_empty() => {
            Ok(TriedPromise::Held(format!("no data named {PROOF} are left")))
        }
        Ok(left) => {
            let seen = format!("{} schemas are left", left.len());
            Err(Unproved::Broken { item: "Engine::drop_data", seen })
        }
        Err(error) => Err(Unproved::by("Engine::drop_data", error)),
    };
    let how = "petal's objects by the database's catalogue";
    Ok(ProofOf { rule: page::DROPPED.to_owned(), how, proof, seconds: seconds(begin) })
}

/// Hands signals that come from now on to the last work, and one when its time is over.
fn hand_on(context: &WorkContext<'_>, last: &Caller, over: &Arc<AtomicBool>) -> Result<()> {
    let (signals, over) = (Arc::clone(&context.caller.signals), Arc::clone(over));
    let (to, begin) = (Arc::clone(&last.signals), Instant::now());
    // The first signal ends the promises, never the drop.
    let before = signals.load(Ordering::Relaxed).max(1);
    Thread::named("prove drop").start(move || {
        while !over.load(Ordering::Relaxed) {
            let more = signals.load(Ordering::Relaxed) > before;
            to.store(u8::from(more || begin.elapsed() > DROP_LIMIT), Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(100));
        }
    })?;
    Ok(())
}

/// The stop of the whole work.
fn stop(context: &WorkContext<'_>) -> Stop {
    Stop::unlimited(Arc::clone(&context.caller.signals))
}
