//! `petal verify`: did every acknowledged commit survive?

use std::path::PathBuf;

use clap::{ArgMatches, Command};

use petal_engine::EngineError;
use petal_record::ledger;
use petal_report::verification;
use petal_run::{RunError, verify};
use petal_settings::table::CommandKind;
use petal_settings::{RedoStress, Settings};

use super::args::{self, flag};
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::{signals, source};

const EXAMPLES: &str = "\
Examples:
  petal verify run1.ledger                    the run's target; or DB, if set
  petal verify run1.ledger --db postgres://petal@standby/petal
                                              a standby, promoted
  petal verify host1.ledger host2.ledger      of a run with --share: all hosts'
  petal verify run1.ledger --json | jq .lost_commits

Verify before anything else writes there. Exit codes: 0 nothing lost; 1 commits
lost, or rows torn or wrong; 2 wrong usage, or ledgers of several runs; 3 no
verdict: the ledger is damaged or of another load, or the target cannot be read,
or it is in recovery before the ledger's last commit.";

pub fn command() -> Command {
    let command = Command::new("verify")
        .about("Check that each commit of a ledger survived a power cut")
        .after_help(EXAMPLES)
        .arg(args::paths(
            "file",
            "FILE",
            "The ledger of petal run --ledger FILE; with --share the ledgers of all hosts",
        ))
        .arg(flag("json", "Print the result as JSON, and only it, on stdout"))
        .arg(args::full());
    args::with_settings(command, CommandKind::Target)
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let signals = signals::count()?;
    let paths = matches.get_many::<PathBuf>("file").unwrap_or_default().cloned();
    let ledgers = paths.map(|path| ledger::read(&path).map(|ledger| (path, ledger)));
    let ledger = ledger::merge(ledgers.collect::<Result<_, _>>()?)?;
    let mut settings = source::read_confirmed(matches, &ledger.header.url, console)?;
    as_the_run_was(&mut settings, &ledger.header);
    let found = verify::verify(&ledger, &settings, &source::context(&signals, console));
    let found = found.map_err(|error| unverified(error, &settings))?;
    let (brief, text) = (|| verification::brief(&found), || verification::text(&found));
    console.show(matches, &found, brief, text)?;
    if found.is_kept() && found.not_replayed_commits > 0 {
        return Ok(Exit::Environment);
    }
    Ok(if found.is_kept() { Exit::Done } else { Exit::Failed })
}

/// Parts of the messages of a refused login and of a missing password: PostgreSQL's SQLSTATEs,
/// error numbers of MySQL and Oracle, and the drivers' own words.
const LOGIN_REFUSED: &[&str] = &[
    "(28P01)",
    "(28000)",
    "password missing",
    "no password was given",
    "(1045)",
    "(1698)",
    "ORA-01005",
    "ORA-01017",
    "no credentials",
];

/// Names the places of a password if the server may have wanted one.
fn unverified(error: RunError, settings: &Settings) -> CommandError {
    let is_server = settings.db.server().is_some() && settings.db.password.is_none();
    match error {
        RunError::Engine(EngineError::Environment(why))
            if is_server && LOGIN_REFUSED.iter().any(|words| why.contains(words)) =>
        {
            RunError::Environment(format!(
                "{why}. A ledger keeps no password: give it in DB of slob.conf or of the \
                 environment, in the database's own password file, or by --db URL?password=@FILE"
            ))
            .into()
        }
        error => error.into(),
    }
}

/// The rows as the run's settings have them.
fn as_the_run_was(settings: &mut Settings, header: &ledger::LedgerHeader) {
    settings.schemas = Some(header.schemas.len() as u32);
    settings.redo_stress = if header.heavy { RedoStress::Heavy } else { RedoStress::Lite };
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_settings::url::TargetUrl;

    #[test]
    fn a_refused_password_names_the_places_of_passwords() {
        let said = |db: &str, why: &str| {
            let settings = Settings { db: TargetUrl::parse(db).unwrap(), ..Settings::default() };
            unverified(EngineError::Environment(why.to_owned()).into(), &settings)
        };
        let (without, none) = ("postgres://petal@one/d", "no password was given");
        for why in [none, "Access denied for user 'petal'@'one' (1045)"] {
            let told = said(without, why);
            assert!(told.exit == Exit::Environment && told.message.contains("password=@FILE"));
        }
        for other in ["postgres://petal:word@one/d", "sqlite:x"] {
            assert_eq!(said(other, none).message, none);
        }
        let starting = "the database system is starting up (57P03)";
        assert_eq!(said(without, starting).message, starting);
    }
}
