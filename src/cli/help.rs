//! `petal help`: of a command, of the parameters, of the metrics, or a slob.conf to begin with.

use clap::{Arg, ArgMatches, Command};
use petal_settings::table;

use super::console::Console;
use super::failure::{CommandError, Exit};

pub fn command() -> Command {
    Command::new("help")
        .about("Help on a command, `parameters`, `metrics`, or a `slob.conf`")
        .arg(Arg::new("topic").value_name("COMMAND|parameters|metrics|slob.conf"))
}

/// Columns of sweep.csv, which are the metrics of comparisons, histories and limits.
fn metrics() -> &'static str {
    let page = include_str!("../../docs/numbers.md");
    let section =
        page.split_once("### Columns of sweep.csv\n\n").map_or("", |(_, section)| section);
    section.split("\n#").next().unwrap_or(section)
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    let mut all = super::command();
    let help = match matches.get_one::<String>("topic").map(String::as_str) {
        None => all.render_long_help().to_string(),
        Some("parameters") => {
            console.report(|| table::help_text(petal_report::table::columns()));
            return Ok(Exit::Done);
        }
        Some("slob.conf") => table::conf_file(),
        Some("metrics") => metrics().to_owned(),
        Some(topic) => {
            all.build();
            let found = all.find_subcommand_mut(topic).ok_or_else(|| {
                CommandError::usage(format!(
                    "there is no help on {topic}; `petal --help` lists the commands, `petal help \
                     parameters` the parameters, `petal help metrics` the metrics"
                ))
            })?;
            found.render_long_help().to_string()
        }
    };
    console.result(&help);
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::observation::metric;

    #[test]
    fn the_metrics_are_those_of_the_page() {
        for name in [metric::PIOPS, metric::READ_US, metric::OPS, "hook_NAME"] {
            assert!(metrics().contains(&format!("`{name}`")), "{name} is not in {}", metrics());
        }
        assert!(!metrics().contains('#'), "{}", metrics());
    }
}
