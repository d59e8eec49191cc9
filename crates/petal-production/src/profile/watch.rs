//! Reads the counters of a server that others use, at the ends of intervals, for a profile.

use std::thread;
use std::time::{Duration, Instant};

use time::{OffsetDateTime, PrimitiveDateTime};

use super::of_work::WorkSnapshot;
use petal_engine::{Engine, EngineError, ProgressUnit, Result};
use petal_record::server_work::ServerWork;
use petal_run::WorkContext;

const POLL: Duration = Duration::from_millis(100);

/// Reads every `every` for as long as `length`, or until a signal. Returns an error if the server
/// could not be read even once.
pub fn watch(
    engine: &dyn Engine,
    every: Duration,
    length: Duration,
    context: &WorkContext<'_>,
) -> Result<Vec<WorkSnapshot>> {
    let begun = Instant::now();
    let server = engine.server().ok_or_else(|| {
        EngineError::Setting(format!(
            "{} keeps no counters of others' work; profile a run of petal's own by its \
             folder, or a server",
            engine.support().product
        ))
    })?;
    let first = server.server_work()?;
    let mut looks = vec![look(begun, Ok(first))];
    let total = (length.as_secs_f64() / every.as_secs_f64()).ceil() as u32;
    context.watch.phase("profiling", u64::from(total), ProgressUnit::Items);
    for number in 1..=total {
        let due = (every * number).min(length);
        while begun.elapsed() < due && !context.caller.is_interrupted() {
            thread::sleep(POLL.min(due.saturating_sub(begun.elapsed())));
        }
        if context.caller.is_interrupted() {
            context.watch.note("interrupted: the profile holds everything until now");
            break;
        }
        let work = server.server_work().map_err(|error| error.to_string());
        if let Err(why) = &work {
            context.watch.error(&format!("no figures of this interval: {why}"));
        }
        looks.push(look(begun, work));
        context.watch.advance(1);
    }
    Ok(looks)
}

fn look(begun: Instant, work: Result<Vec<ServerWork>, String>) -> WorkSnapshot {
    // The moment of the answer: counters are read just before.
    let now = OffsetDateTime::now_utc();
    WorkSnapshot {
        at: PrimitiveDateTime::new(now.date(), now.time()),
        elapsed_s: begun.elapsed().as_secs_f64(),
        work,
    }
}
