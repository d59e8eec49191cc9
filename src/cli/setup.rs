//! `petal setup`: loads schemas.

use std::sync::atomic::Ordering;

use clap::{Arg, ArgMatches, Command};

use petal_engine::{LoadSummary, Stop};
use petal_report::numbers::{bytes as size, counted, decimal, or_dash, whole};
use petal_report::table::{SCREEN_LINES, Table, fitting, paragraph, rest};
use petal_run::load;
use petal_run::series::draw_seed;
use petal_settings::SCHEMAS_MAX;
use petal_settings::printable::printable_line;
use petal_settings::table::CommandKind;

use super::args::{self, flag};
use super::console::Console;
use super::failure::{CommandError, Exit};
use super::{live, signals, source};

/// Lines of the summary on a screen, without the line about compression.
const SUMMARY_LINES: usize = SCREEN_LINES - 2;

const EXAMPLES: &str = "\
Examples:
  petal setup -s 4 --scale 1G              four schemas of 1 GiB in ./petal-data
  petal setup -s 8 --load-parallel-degree 4 --db sqlite:/data/petal
  petal setup IOPS 4                       SLOB's own form: tablespace, schemas

Existing schemas of the requested size stay; others are refused without
--replace. If a load is interrupted, no run accepts its unfinished schemas.";

pub fn command() -> Command {
    let command = Command::new("setup")
        .about("Load schemas, one row a block in random order, and prove it")
        .after_help(args::of_targets(EXAMPLES))
        .arg(
            Arg::new("form")
                .value_name("[TABLESPACE] N")
                .num_args(0..=2)
                .value_parser(args::no_setting)
                .help("SLOB's own form; -s N says the same"),
        )
        .arg(flag(
            "print-grants",
            "Oracle: print the grants that petal needs, for a DBA to read, and end",
        ))
        .arg(flag("replace", "Load again over petal's own schemas"))
        .arg(args::full())
        .arg(args::schemas("How many schemas [default: 1]"))
        .arg(args::destroy_data())
        .args(live::args())
        .args(live::metrics_arg());
    args::with_settings(command, CommandKind::Setup)
}

pub fn run(matches: &ArgMatches, console: &Console) -> Result<Exit, CommandError> {
    if matches.get_flag("print-grants") {
        return print_grants(console);
    }
    let (tablespace, schemas) = form(matches)?;
    let mut settings = source::read(matches, CommandKind::Setup, schemas, console)?;
    let signals = signals::count()?;
    let context = source::context(&signals, console);
    let mut engine = context.open(&settings)?;
    if let Some(tablespace) = tablespace {
        if engine.support().tablespaces {
            settings.db.options.insert("tablespace".to_owned(), tablespace);
            engine = context.open(&settings)?;
        } else {
            console.warn(&format!("this engine has no tablespaces: {tablespace} has no effect"));
        }
    }
    let block_size = engine.block_size(settings.block_sz)?;
    settings.check_against(block_size, None)?;
    let seed = settings.seed.map_or_else(draw_seed, Ok)?;
    let setup = load::plan(engine.as_ref(), &settings, seed, matches.get_flag("replace"))?;
    for kept in &setup.kept {
        console.warn(&format!("schema {} is there as asked and stays", kept.number));
    }
    let stop = Stop::unlimited(signals.clone());
    let loaded = load::load(engine.as_ref(), &setup.plan, console, &stop);
    if signals.load(Ordering::Relaxed) > 0 && loaded.is_err() {
        return Err(CommandError::new(Exit::Interrupted, "setup was interrupted"));
    }
    let (loaded, url) = (loaded?, settings.db.redacted());
    let url = printable_line(&url);
    let all = loaded.schemas.len();
    let mut text = console.laid_out(|| match console.is_brief(matches) {
        true => fitting(all, SUMMARY_LINES, |count| summary(&loaded, count, &url)),
        false => summary(&loaded, all, &url),
    });
    // A target that cannot be described now is no fault of the load.
    if let Ok((_, target)) = engine.describe(settings.schemas.unwrap_or(1), 1)
        && let Some(ratio) = target.compression_ratio
    {
        text.push_str(&compresses(ratio, settings.compress_ratio));
    }
    console.result(&text);
    Ok(Exit::Done)
}

fn print_grants(console: &Console) -> Result<Exit, CommandError> {
    let Some(grants) = crate::engines::GRANTS else {
        return Err(CommandError::usage("--print-grants: this petal has no engine for oracle:"));
    };
    console.result(grants);
    Ok(Exit::Done)
}

/// `-s N`, `N` or `TABLESPACE N`: the tablespace and the number of schemas.
fn form(matches: &ArgMatches) -> Result<(Option<String>, Option<u32>), CommandError> {
    let form: Vec<&String> = matches.get_many("form").unwrap_or_default().collect();
    let (tablespace, count) = match form.as_slice() {
        [] => return Ok((None, matches.get_one("schemas").copied())),
        [count] => (None, count),
        [tablespace, count, ..] => (Some((*tablespace).clone()), count),
    };
    if matches.contains_id("schemas") {
        return Err(CommandError::usage(format!(
            "-s and N={count} both say how many schemas: give one of them"
        )));
    }
    match count.parse::<u32>() {
        Ok(count) if (1..=SCHEMAS_MAX).contains(&count) => Ok((tablespace, Some(count))),
        _ => Err(CommandError::usage(format!(
            "N={count}: the number of schemas is a whole number from 1 to {SCHEMAS_MAX}; for \
             instance `petal setup 4`"
        ))),
    }
}

/// All schemas together, and a line for each of the first `shown`.
fn summary(loaded: &LoadSummary, shown: usize, url: &str) -> String {
    if loaded.schemas.is_empty() {
        return format!("{url}: nothing to load\n");
    }
    let heading = "schema | rows: | blocks: | size: | index: | scan table: | seconds: | MB/s:";
    let mut table = Table::headed(heading);
    let sum = |sum: u64, part: Option<u64>| Some(sum.saturating_add(part?));
    let mut bytes = Some(0);
    for (at, one) in loaded.schemas.iter().enumerate() {
        let sizes = [one.schema.bytes, one.schema.index_bytes, one.scan_bytes];
        let all = sizes.into_iter().try_fold(0, sum);
        bytes = bytes.and_then(|bytes| sum(bytes, all));
        if at >= shown {
            continue;
        }
        let [rows, index, scan] = sizes.map(|bytes| or_dash(bytes, size));
        table.row([
            one.schema.number.to_string(),
            whole(one.placement.rows),
            whole(one.placement.blocks),
            rows,
            index,
            scan,
            decimal(one.seconds, 2),
            megabytes(all, one.seconds),
        ]);
    }
    let all = format!(
        "{url}: {}, {} in {} s, {} MB/s; one row per block proved by {}",
        counted(loaded.schemas.len() as u64, "schema"),
        or_dash(bytes, size),
        decimal(loaded.seconds, 2),
        megabytes(bytes, loaded.seconds),
        loaded.schemas[0].placement.source,
    );
    let more = rest(loaded.schemas.len().saturating_sub(shown), "schema", "in the sum above");
    let mut text = paragraph("", "  ", &all) + &until_durable(loaded, bytes);
    text.push_str(&format!("\n{}{more}", table.render()));
    if bytes.is_none() {
        text.push_str("- is a size that the database does not say\n");
    }
    text
}

fn megabytes(bytes: Option<u64>, seconds: f64) -> String {
    or_dash(bytes, |bytes| decimal(bytes as f64 / 1e6 / seconds.max(1e-9), 1))
}

/// Shorter steps after the load are not named.
const SHOWN_S_MIN: f64 = 0.005;

/// Tolerance between the measured and the requested compression ratio, as a share.
const RATIO_OFF_MAX: f64 = 0.05;

/// Says how sampled blocks compress, and why if COMPRESS_RATIO was not reached.
fn compresses(ratio: f64, asked: Option<f64>) -> String {
    let measured = format!("blocks compress {ratio:.1} times (sampled, LZ4)");
    let why = match asked {
        Some(asked) if ratio > asked * (1.0 + RATIO_OFF_MAX) => {
            "the free space of each block is zeros, which compress away, and its row is \
             incompressible already"
        }
        Some(asked) if ratio < asked * (1.0 - RATIO_OFF_MAX) => {
            "each row holds a text that no other has, so that every UPDATE changes the text"
        }
        _ => return format!("{measured}\n"),
    };
    let asked = asked.unwrap_or_default();
    format!("{measured}, not {asked} as COMPRESS_RATIO asked: {why}\n")
}

/// The load itself, until its data were durable.
fn until_durable(loaded: &LoadSummary, bytes: Option<u64>) -> String {
    let Some(seconds) = loaded.durable_seconds else { return String::new() };
    let long = loaded.afterwards.iter().filter(|(_, seconds)| *seconds >= SHOWN_S_MIN);
    let afterwards: Vec<String> =
        long.map(|(what, seconds)| format!("{what} {} s", decimal(*seconds, 2))).collect();
    let then = if afterwards.is_empty() { "" } else { "; then " };
    let durable = format!(
        "rows and indexes durable after {} s, {} MB/s{then}{}",
        decimal(seconds, 2),
        megabytes(bytes, seconds),
        afterwards.join(", "),
    );
    paragraph("", "  ", &durable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_engine::{LoadedSchemaSummary, Placement};
    use petal_record::target::LoadedSchema;

    #[test]
    fn a_size_that_the_database_does_not_say_is_no_number_in_the_summary() {
        let schema = |number, index_bytes| LoadedSchemaSummary {
            schema: LoadedSchema {
                number,
                bytes: Some(8_000_000),
                index_bytes,
                ..LoadedSchema::default()
            },
            scan_bytes: Some(0),
            seconds: 2.0,
            placement: Placement {
                rows: 1000,
                blocks: 1000,
                rows_per_block_max: 1,
                overflow_blocks: Some(0),
                source: "a test",
            },
        };
        let loaded = |index_bytes| LoadSummary {
            schemas: vec![schema(1, Some(1_000_000)), schema(2, index_bytes)],
            seconds: 4.0,
            durable_seconds: Some(4.0),
            afterwards: vec![("proof", 1.0)],
        };
        let known = summary(&loaded(Some(1_000_000)), 2, "x:");
        assert!(known.contains("2 schemas, 17.2 MiB in 4.00 s, 4.5 MB/s;"), "{known}");
        let unknown = summary(&loaded(None), 2, "x:");
        assert!(unknown.contains("2 schemas, - in 4.00 s, - MB/s;"), "{unknown}");
        assert!(unknown.contains("after 4.00 s, - MB/s; then proof"), "{unknown}");
        assert!(unknown.contains("- is a size that the database does not say"), "{unknown}");
        let first = summary(&loaded(Some(1_000_000)), 1, "x:");
        assert!(first.starts_with("x:: 2 schemas, 17.2 MiB "), "{first}");
        assert!(first.ends_with("\n1 more schema in the sum above\n"), "{first}");
        let second = unknown.lines().nth(6).unwrap().split_whitespace().collect::<Vec<_>>();
        assert_eq!(second, ["2", "1,000", "1,000", "7.63", "MiB", "-", "0", "B", "2.00", "-"]);
    }

    #[test]
    fn a_ratio_that_is_not_to_be_had_is_reported_with_its_reason() {
        insta::assert_snapshot!(compresses(47.96, None), @"blocks compress 48.0 times (sampled, LZ4)");
        insta::assert_snapshot!(compresses(2.04, Some(2.0)), @"blocks compress 2.0 times (sampled, LZ4)");
        insta::assert_snapshot!(compresses(3.27, Some(2.0)), @"blocks compress 3.3 times (sampled, LZ4), not 2 as COMPRESS_RATIO asked: the free space of each block is zeros, which compress away, and its row is incompressible already");
        insta::assert_snapshot!(compresses(20.0, Some(99.5)), @"blocks compress 20.0 times (sampled, LZ4), not 99.5 as COMPRESS_RATIO asked: each row holds a text that no other has, so that every UPDATE changes the text");
    }
}
