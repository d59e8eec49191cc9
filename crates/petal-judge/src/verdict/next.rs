//! The command to type next, with the flags of the run that it follows.

use petal_record::Run;
use petal_record::conclusions::{LimitedBy, Limiter};
use petal_settings::Origin;
use petal_settings::table::{self, CommandKind};

use crate::memory;
use crate::physical::{self, PageCacheRemedy};
use crate::trust;

/// Multiple of a cache other than the page cache, from which on it serves few of the reads.
const TIMES_CACHE: u64 = 4;
/// Memory of a host that is not known.
const UNKNOWN_MEMORY: u64 = 16 << 30;
const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
/// Sizes below one GiB are a multiple of this.
const SMALL_STEP: u64 = 64 << 20;
/// The longest run that is advised for more operations.
const LONGEST_S: f64 = 3600.0;
/// The shortest time of a run whose figures can be relied on, in seconds.
const RUN_TIME_S: &str = "300";
/// Parameters that are named in another way, or that name this run alone.
const LEFT_OUT: [&str; 4] = ["DB", "OUT", "SEED", "REPEATS"];

/// Command after a valid run: the remedy of its gravest warning, its repeats, or more about its
/// limit. `is_of_others`: others' work on the processors is a part of the limit.
pub(super) fn after_valid(run: &Run, limited_by: &LimitedBy, is_of_others: bool) -> String {
    // The same run would meet the others again.
    if is_of_others {
        return check(run);
    }
    let mut changes = Vec::new();
    if trust::short_run(run).is_ok() {
        changes.push(("run-time", RUN_TIME_S));
    }
    if run.details.repeats < 3 {
        changes.push(("repeats", "3"));
    }
    if !changes.is_empty() {
        return again(run, &changes);
    }
    match limited_by.by {
        Limiter::NotDetermined | Limiter::OtherWaits => again(run, &[("waterfall", "true")]),
        _ => format!("petal sweep --sessions 1,2,4,8,16 --repeats 3 --db {}", url(run)),
    }
}

/// Command of the same run.
pub(super) fn the_same(run: &Run) -> String {
    again(run, &[])
}

/// The run again, long enough for figures.
pub(super) fn longer(run: &Run) -> String {
    let times = trust::WorkDone::of(&run.headline_window().run).times_longer();
    let work_loop = run.summary.setting_number("work_loop").filter(|&count| count > 0.0);
    match work_loop {
        Some(count) => again(run, &[("work-loop", &rounded_up(count * times))]),
        None => {
            let seconds = run.summary.setting_number("run_time").unwrap_or(run.summary.elapsed_s);
            again(run, &[("run-time", &rounded_up((seconds * times).clamp(60.0, LONGEST_S)))])
        }
    }
}

/// A number with two digits that is not smaller.
fn rounded_up(value: f64) -> String {
    let unit = 10_f64.powf((value.max(1.0).log10().floor() - 1.0).max(0.0));
    format!("{:.0}", (value / unit).ceil() * unit)
}

pub(super) fn check(run: &Run) -> String {
    format!("petal check --db {}", url(run))
}

/// The load that was there, with its size.
pub(super) fn load_again(run: &Run) -> String {
    let rows = run.summary.setting_number("scale").filter(|&rows| rows >= 1.0);
    let scale = rows.map_or_else(String::new, |rows| {
        let bytes = rows as u64 * run.summary.target.block_size;
        match bytes % MIB {
            0 if bytes > 0 => format!(" --scale {}M", bytes / MIB),
            _ => format!(" --scale {rows}"),
        }
    });
    let (count, url) = (run.summary.schemas.max(1), url(run));
    replaces(&format!("petal setup --replace -s {count}{scale} --db {url}"))
}

/// A load of several times the memory that may hold the data.
pub(super) fn load_more(run: &Run) -> String {
    let memory = run.details.host.as_ref().and_then(|host| host.memory_bytes);
    load(run, memory::data_beyond(memory.unwrap_or(UNKNOWN_MEMORY)))
}

/// A load of several times the database's cache; or the run without its hot spot, which stays as small
/// in any load.
pub(super) fn load_beyond_cache(run: &Run) -> String {
    if physical::is_all_in_a_hot_spot(run) {
        return again(run, &[("do-hotspot", "false")]);
    }
    load_beyond(run, run.summary.target.cache_bytes.unwrap_or(GIB))
}

/// A load of several times the storage's cache.
pub(super) fn load_beyond_storage_cache(run: &Run) -> String {
    let cache = run.summary.setting("storage_cache").and_then(|value| value.as_u64());
    load_beyond(run, cache.unwrap_or(UNKNOWN_MEMORY))
}

fn load_beyond(run: &Run, cache_bytes: u64) -> String {
    load(run, cache_bytes.saturating_mul(TIMES_CACHE))
}

fn load(run: &Run, data_bytes: u64) -> String {
    replaces(&setup(run.summary.schemas, data_bytes, &run.summary.target.url))
}

/// The command that loads so much data in all schemas together.
pub(crate) fn setup(schemas: u32, data_bytes: u64, url: &str) -> String {
    let each = (data_bytes / u64::from(schemas.max(1))).max(1);
    let scale = match each.div_ceil(SMALL_STEP) * SMALL_STEP {
        small @ ..GIB => format!("{}M", small >> 20),
        _ => format!("{}G", each.div_ceil(GIB)),
    };
    let (count, url) = (schemas.max(1), shell_word(url));
    format!("petal setup --replace -s {count} --scale {scale} --db {url}")
}

/// The run again past the page cache, or a load that this cannot hold.
pub(super) fn past_the_page_cache(run: &Run) -> String {
    match physical::page_cache_remedy(run) {
        PageCacheRemedy::DirectIo => again(run, &[("direct-io", "true")]),
        PageCacheRemedy::Limit => match memory::limit_command_of(run) {
            Some(command) => format!("{command} {}", again(run, &[])),
            None => again(run, &[("page-cache-limit", "512M")]),
        },
        PageCacheRemedy::DataForLimit => {
            let (data_bytes, needs_limit) = memory::least_data_of(run);
            let setup = setup(run.summary.schemas, data_bytes, &run.summary.target.url);
            let limit = memory::limit_command_of(run).filter(|_| needs_limit);
            replaces(&limit.map_or_else(|| setup.clone(), |limit| format!("{setup}; {limit}")))
        }
        PageCacheRemedy::MoreData => load_more(run),
    }
}

/// The run's command, with changed flags.
fn again(run: &Run, changes: &[(&str, &str)]) -> String {
    let mut words = vec!["petal run".to_owned(), format!("-s {}", run.summary.schemas.max(1))];
    let conf = run.details.conf_file.as_deref().filter(|file| *file != "./slob.conf");
    words.extend(conf.map(|file| format!("--conf {}", shell_word(file))));
    for given in &run.details.given {
        let is_typed = matches!(given.origin, Origin::Flag | Origin::Environment(_));
        let parameter = table::find(&given.key).filter(|_| is_typed && !given.value.is_null());
        let Some(parameter) = parameter.filter(|it| it.taken_by.includes(CommandKind::Run)) else {
            continue;
        };
        let is_changed = changes.iter().any(|(flag, _)| *flag == parameter.flag());
        if !is_changed && !LEFT_OUT.contains(&parameter.key) {
            let value = petal_record::as_text(&given.value, "");
            // As somebody types it: `--rate 400`, not `--rate 400.0`.
            let value = value.strip_suffix(".0").map_or(value.clone(), str::to_owned);
            words.push(format!("--{} {}", parameter.flag(), shell_word(&value)));
        }
    }
    // The one option of a run that is no parameter and changes its end.
    if run.details.connections.is_some() {
        words.push("--on-disconnect retry".to_owned());
    }
    words.extend(changes.iter().map(|(flag, value)| format!("--{flag} {value}")));
    words.push(format!("--db {}", url(run)));
    words.join(" ")
}

/// A command that replaces data, with a comment for a shell that says so.
pub(crate) fn replaces(command: &str) -> String {
    format!("{command}  # replaces the data that petal loaded there")
}

fn url(run: &Run) -> String {
    shell_word(&run.summary.target.url)
}

/// A word as a shell takes it whole.
fn shell_word(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "@%+=:,./_-".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}
