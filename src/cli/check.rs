//! `petal check`: looks for problems that would spoil a test, before one is run.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, Command};

use petal_engine::{Engine, EngineError, Result};
use petal_host::devices;
use petal_host::host::HostFacts;
use petal_judge::host::{Check, CheckResult};
use petal_judge::{host, target};
use petal_record::counters::Counters;
use petal_record::target::LoadedSchema;
use petal_run::{load, rows};
use petal_settings::table::CommandKind;
use petal_settings::url::TargetUrl;
use petal_settings::{LoopSide, Settings};

use super::args;
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::source;

/// Looking for all rows of large data would take hours.
const ROWS_LIMIT: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  petal check                            this host, and the data in ./petal-data
  petal check --db sqlite:/data/petal    the device under /data/petal
  petal check -s 8 --db oracle://u@h/s   before a load: room, a test table

Exit code 1 if something would spoil a test, else 0.";

pub fn command() -> Command {
    let command = Command::new("check")
        .about("Check host and target for problems that would spoil a test")
        .after_help(args::of_targets(EXAMPLES));
    let schemas = args::schemas("How many schemas are to be loaded [default: 1]");
    let command = command.args([schemas, args::full()]);
    args::with_settings(command, CommandKind::Target)
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let schemas = matches.get_one("schemas").copied();
    let mut settings = source::read(matches, CommandKind::Target, schemas, console)?;
    // The loop inside a server may need a routine there, and a check leaves nothing.
    settings.loop_side = Some(LoopSide::Client);
    let engine = source::open_alone(&settings, console)?;
    let loaded = engine.loaded()?;
    let described = match loaded.len() as u32 {
        0 => None,
        schemas => Some(engine.describe(schemas, schemas)?),
    };
    let (data, others) = match &described {
        Some((_, details)) if details.local => {
            (details.data_files.clone(), details.server_files.clone())
        }
        Some(_) => (Vec::new(), Vec::new()),
        None => (future_data_folder(&settings.db), Vec::new()),
    };
    let host = HostFacts::collect_with(
        Some(&devices::find_for(&data, &others)),
        &petal_engine::server_processes(engine.as_ref()),
    );
    let mut checks = host::check(&host);
    match &described {
        Some((about, details)) => {
            checks.extend(target::check(about, details));
            checks.push(target::data(about, details, &loaded, &host));
            checks.extend(target::timing(details));
        }
        None => {
            console.warn(&format!("{}: nothing is loaded yet", settings.db.redacted()));
            checks.extend(before_load(engine.as_ref(), &settings)?);
        }
    }
    if let Some(server) = engine.server() {
        checks.extend(target::sessions(server.sessions_max()?, loaded.len() as u32));
        checks.extend(target::replicas(server.check_replicas().map_err(|error| error.to_string())));
        checks.extend(target::room(server.check_room().map_err(|error| error.to_string())));
        checks.extend(server.privileges()?.iter().map(target::privilege));
        if !loaded.is_empty() {
            checks.extend(other_runs(engine.as_ref(), loaded.len() as u32)?);
        }
        let counters =
            engine.read_counters(true).map(|all| Counters::sum(&all).unwrap_or_default());
        let reasons = counters.map(|all| all.reasons).map_err(|error| error.to_string());
        checks.extend(target::figures(reasons));
    }
    checks.extend(look_for_rows(engine.as_ref(), &loaded)?);
    console.report(|| match console.is_brief(matches) {
        true => petal_report::checks::brief(&checks),
        false => petal_report::checks::render(&checks),
    });
    let spoiled = checks.iter().any(|check| check.verdict == CheckResult::Warn);
    Ok(if spoiled { Exit::Failed } else { Exit::Done })
}

/// Takes the mark of a run on the data, and looks for other runs.
fn other_runs(engine: &dyn Engine, schemas: u32) -> Result<Option<Check>> {
    let words = |error| match error {
        EngineError::Interrupted => Err(EngineError::Interrupted),
        error => Ok(error.to_string()),
    };
    Ok(match engine.begin_use(schemas).map(|data_use| data_use.other_runs()) {
        Err(refused) => Some(target::not_usable(words(refused)?)),
        Ok(found) => target::other_runs(match found {
            Err(unknown) => Err(words(unknown)?),
            Ok(runs) => Ok(runs),
        }),
    })
}

/// Checks the place of a load. Only a database with tablespaces needs the question.
fn before_load(engine: &dyn Engine, settings: &Settings) -> Result<Vec<Check>, CommandError> {
    let Some(server) = engine.server().filter(|_| !settings.use_slob_schemas) else {
        return Ok(Vec::new());
    };
    if !engine.support().tablespaces {
        return Ok(Vec::new());
    }
    let setup = load::plan(engine, settings, 1, false)?;
    Ok(server.check_load(&setup.plan)?.iter().map(target::before_load).collect())
}

/// The time for looking at rows, shared by all schemas.
fn look_for_rows(engine: &dyn Engine, loaded: &[LoadedSchema]) -> Result<Vec<Check>> {
    let limit = ROWS_LIMIT / loaded.len().max(1) as u32;
    let look = |schema: &LoadedSchema| {
        let found = match rows::look(engine, schema, limit) {
            Err(EngineError::Interrupted) => return Err(EngineError::Interrupted),
            found => found.map_err(|error| error.to_string()),
        };
        Ok(target::rows(schema.number, found))
    };
    loaded.iter().map(look).collect()
}

/// The folder where data will be loaded; only a server knows its own.
fn future_data_folder(db: &TargetUrl) -> Vec<PathBuf> {
    db.path().and_then(|path| std::path::absolute(path).ok()).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_url_is_no_path_of_this_host() {
        let files = |url: &str| future_data_folder(&TargetUrl::parse(url).unwrap());
        assert_eq!(files("sqlite:/data/petal"), [PathBuf::from("/data/petal")]);
        assert_eq!(files("postgres://petal@dbhost/petal"), [""; 0].map(PathBuf::from));
    }
}
