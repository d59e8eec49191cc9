//! `--format`, with `--json` and `--csv`: the form in which a comparison or a history is printed.

use clap::{Arg, ArgMatches, ValueEnum, value_parser};

use petal_judge::and_more;
use petal_report::bmf::Bmf;

use super::args::{flag, value};
use super::console::Console;
use super::failure::CommandError;

/// Figures that a message names as left out.
const NAMED_MAX: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AnswerFormat {
    Text,
    Json,
    Csv,
    Bmf,
    Junit,
    Markdown,
}

impl AnswerFormat {
    /// `--format`, `--json` and `--csv`, one of which may be given.
    pub fn args() -> [Arg; 3] {
        const HELP: &str = "Print text (the default), json, csv, bmf (for bencher.dev), junit (a \
                            test case per cell and limit) or markdown (a pull request's comment)";
        let format = value("format", "FORMAT", HELP).value_parser(value_parser!(Self));
        [
            format.hide_possible_values(true).conflicts_with_all(["json", "csv"]),
            flag("json", "Print all of it as JSON, and only it, on stdout"),
            flag("csv", "Print a row per cell and figure as CSV").conflicts_with("json"),
        ]
    }

    /// Returns the form that was asked for. JUnit needs a limit: without one no test can fail.
    pub fn of(matches: &ArgMatches) -> Result<Self, CommandError> {
        let format = match matches.get_one::<Self>("format") {
            Some(format) => *format,
            None if matches.get_flag("json") => Self::Json,
            None if matches.get_flag("csv") => Self::Csv,
            None => Self::Text,
        };
        if format == Self::Junit && !matches.contains_id("fail-if") {
            return Err(CommandError::usage(
                "--format junit: without a limit no test can fail; add --fail-if 'piops < -5%'",
            ));
        }
        Ok(format)
    }
}

/// Renders figures in the Bencher Metric Format, and names on stderr the ones that it leaves out.
pub fn bmf(figures: &Bmf, console: &Console) -> Result<String, CommandError> {
    let left_out = &figures.left_out;
    if !left_out.is_empty() {
        let named: Vec<&str> = left_out.iter().take(NAMED_MAX).map(String::as_str).collect();
        let more = and_more("; ", left_out.len() - named.len());
        console.warn(&format!("left out, because unknown: {}{more}", named.join("; ")));
    }
    figures.render().map_err(CommandError::failed("the figures cannot be written"))
}
