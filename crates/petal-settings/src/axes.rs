//! The axes of a sweep: flags that hold several values, apart from those that hold one, and the
//! settings of every cell. Each cell is validated as a run would be.

use std::collections::BTreeMap;

use super::error::{SettingError, SettingErrors};
use super::read::{self, SERVER_AXIS, Sources};
use super::table::{self, CommandKind, Group, PARAMETERS, Parameter};
use super::{Origin, Settings, url};

/// The most cells that a sweep may have; more is a slip of the pen.
pub const CELLS_MAX: usize = 10_000;

/// A sweep's command line, before anything is validated.
#[derive(Debug, Default)]
pub struct SweepArguments {
    /// Flags, by key; a value may be a list.
    pub flags: BTreeMap<&'static str, String>,
    /// `--sessions`, a list.
    pub sessions: Option<String>,
    /// `--db`, as often as it was given; each may have a short name: `old=URL`. A URL may hold
    /// commas, so it is never a list.
    pub targets: Vec<String>,
    /// `--server-setting NAME=VALUE,VALUE`, as often as it was given.
    pub server_settings: Vec<String>,
}

/// The axes and the cells that they span.
#[derive(Debug)]
pub struct Axes {
    /// Key in lower case, and its values as the table writes them; the last one varies fastest.
    pub axes: Vec<(String, Vec<String>)>,
    /// The settings of each combination, in that order.
    pub combinations: Vec<Settings>,
}

/// An axis with the values that were asked for.
struct List {
    /// Parameter's key, in lower case.
    key: String,
    values: Vec<String>,
    /// Names of the values in the plan; empty for the values themselves.
    names: Vec<String>,
}

impl List {
    fn new(key: impl Into<String>, values: Vec<String>) -> Self {
        Self { key: key.into(), values, names: Vec::new() }
    }

    /// The targets, by their names if each has one.
    fn of_targets(targets: &[String]) -> Self {
        let (names, urls): (Vec<Option<&str>>, Vec<&str>) =
            targets.iter().map(|target| url::named(target)).unzip();
        let names: Vec<String> = names
            .into_iter()
            .zip(&urls)
            .map(|(name, url)| name.map_or_else(|| shown_url(url), str::to_owned))
            .collect();
        let values = urls.into_iter().map(str::to_owned).collect();
        Self { names, ..Self::new("db", values) }
    }
}

/// A URL as the table writes it.
fn shown_url(text: &str) -> String {
    let parameter = table::find("DB");
    let parsed = parameter.and_then(|it| Some((it, it.parse(text).ok()?)));
    parsed.map_or_else(|| text.trim().to_owned(), |(it, value)| it.words(&value.to_json()))
}

/// Spans the cells. The other parameters are from `sources`, whose flags are replaced.
pub fn span(asked: &SweepArguments, sources: &Sources) -> Result<Axes, SettingErrors> {
    let mut errors = Vec::new();
    let mut lists = Vec::new();
    if asked.targets.len() > 1 {
        lists.push(List::of_targets(&asked.targets));
    }
    for text in &asked.server_settings {
        match server_setting(text) {
            Ok(list) => lists.push(list),
            Err(error) => errors.push(error),
        }
    }
    let mut single = asked.flags.clone();
    single.remove("DB");
    if let [target] = asked.targets.as_slice() {
        single.insert("DB", url::named(target).1.to_owned());
    }
    for parameter in PARAMETERS {
        match axis_of(parameter, asked) {
            Ok(Some(list)) => {
                single.remove(parameter.key);
                lists.push(list);
            }
            Ok(None) => {}
            Err(error) => errors.push(error),
        }
    }
    let apart = is_given(asked, "READERS") || is_given(asked, "WRITERS");
    match sessions(asked, apart) {
        Ok(list) => lists.extend(list),
        Err(error) => errors.push(error),
    }
    let count = cells(&lists);
    if count > CELLS_MAX {
        errors.push(SettingError::elsewhere(
            format!("{count} cells"),
            format!("is more than a sweep may have, {CELLS_MAX}"),
            "Leave out values, or make several sweeps.",
        ));
    }
    match errors.is_empty() {
        true => read_all(lists, &single, sources, apart),
        false => Err(SettingErrors(errors)),
    }
}

/// Number of cells that the lists span; a product that overflows is `usize::MAX`.
fn cells(lists: &[List]) -> usize {
    lists.iter().map(|list| list.values.len()).fold(1, usize::saturating_mul)
}

fn is_given(asked: &SweepArguments, key: &str) -> bool {
    asked.flags.get(key).is_some_and(|text| !text.is_empty())
}

/// Reads every combination. A fault that several of them have is reported once.
fn read_all(
    lists: Vec<List>,
    single: &BTreeMap<&'static str, String>,
    sources: &Sources,
    apart: bool,
) -> Result<Axes, SettingErrors> {
    let mut combinations = Vec::new();
    let mut errors: Vec<SettingError> = Vec::new();
    for position in 0..cells(&lists) {
        let values = combination(&lists, position);
        if no_session(&values) {
            continue;
        }
        match read_one(&values, single, sources) {
            Ok(settings) => combinations.push(settings),
            Err(SettingErrors(found)) => {
                for error in found {
                    if !errors.contains(&error) {
                        errors.push(error);
                    }
                }
            }
        }
    }
    if !errors.is_empty() {
        return Err(SettingErrors(errors));
    }
    let mut axes: Vec<_> = lists.iter().map(|list| (list.key.clone(), canonical(list))).collect();
    if let Some(first) = combinations.first() {
        implied(&mut axes, first, apart);
        if first.sessions.is_some() && (first.readers.is_some() || first.writers.is_some()) {
            let key = if first.readers.is_some() { "READERS" } else { "WRITERS" };
            return Err(SettingErrors(vec![SettingError::elsewhere(
                "--sessions",
                format!(
                    "contradicts {}, where READERS and WRITERS are the sessions",
                    first.with_origin(key)
                ),
                "Leave out one or the other; --readers \"\" --writers \"\" unsets them here.",
            )]));
        }
    }
    let same_key =
        axes.iter().enumerate().find(|(at, axis)| axes[..*at].iter().any(|a| a.0 == axis.0));
    if let Some((_, (key, _))) = same_key {
        let name = key.trim_start_matches(SERVER_AXIS);
        return Err(SettingErrors(vec![SettingError::elsewhere(
            format!("--server-setting {name}"),
            "is given twice",
            "Write all values of a setting into one list.",
        )]));
    }
    let twice = axes.iter().find_map(|(key, values)| {
        let twice = values.iter().enumerate().find(|(at, value)| values[..*at].contains(value))?;
        Some((key.clone(), twice.1.clone()))
    });
    match twice {
        None => Ok(Axes { axes, combinations }),
        Some((key, value)) => Err(SettingErrors(vec![SettingError::elsewhere(
            format!("{}={value}", key.to_ascii_uppercase()),
            "is twice in its list",
            "Name each value once; REPEATS does a cell several times.",
        )])),
    }
}

/// Values of the n-th combination (from 0) of the lists; the last list varies fastest.
fn combination(lists: &[List], position: usize) -> Vec<(&str, &str)> {
    let mut rest = position;
    let mut values: Vec<(&str, &str)> = lists
        .iter()
        .rev()
        .map(|list| {
            let value = &list.values[rest % list.values.len()];
            rest /= list.values.len();
            (list.key.as_str(), value.as_str())
        })
        .collect();
    values.reverse();
    values
}

/// True of READERS=0 with WRITERS=0, the corner of their table that is no cell.
fn no_session(values: &[(&str, &str)]) -> bool {
    let zero = |key: &str| values.iter().any(|(k, value)| *k == key && value.trim() == "0");
    zero("readers") && zero("writers")
}

fn read_one(
    values: &[(&str, &str)],
    single: &BTreeMap<&'static str, String>,
    sources: &Sources,
) -> Result<Settings, SettingErrors> {
    let mut flags = single.clone();
    let mut sessions = None;
    let mut server_settings = Vec::new();
    for (key, value) in values {
        if *key == "sessions" {
            sessions = value.parse().ok();
        } else if let Some(name) = key.strip_prefix(SERVER_AXIS) {
            server_settings.push((name.to_owned(), (*value).to_owned()));
        } else if let Some(parameter) = table::find(&key.to_ascii_uppercase()) {
            flags.insert(parameter.key, (*value).to_owned());
        }
    }
    let settings = read::read(&Sources {
        command: CommandKind::Sweep,
        flags,
        conf: sources.conf.clone(),
        directory: sources.directory.clone(),
        ..*sources
    })?;
    Ok(Settings { sessions, server_settings, ..settings })
}

/// The axes that every sweep has, also with one value: UPDATE_PCT, or READERS and WRITERS.
/// `sessions` is the last; without a list of it the target decides, so it comes in later.
fn implied(axes: &mut Vec<(String, Vec<String>)>, first: &Settings, apart: bool) {
    let has = |axes: &[(String, Vec<String>)], key: &str| axes.iter().any(|(k, _)| k == key);
    let apart = apart || first.readers.is_some() || first.writers.is_some();
    let mut add = |key: &str, value: String| {
        if !has(axes, key) {
            let before_sessions = axes.len() - usize::from(has(axes, "sessions"));
            axes.insert(before_sessions, (key.to_owned(), vec![value]));
        }
    };
    if apart {
        add("readers", first.readers.unwrap_or(0).to_string());
        add("writers", first.writers.unwrap_or(0).to_string());
    } else if !first.has_kind_rates() {
        add("update_pct", first.update_pct.to_string());
    }
}

/// The values as the table writes them, so that `8k` and `8K` are one value.
fn canonical(list: &List) -> Vec<String> {
    if !list.names.is_empty() {
        return list.names.clone();
    }
    let parameter = table::find(&list.key.to_ascii_uppercase());
    let words = |text: &String| match parameter.map(|p| (p, p.parse(text))) {
        Some((parameter, Ok(value))) => parameter.words(&value.to_json()),
        _ => text.trim().to_owned(),
    };
    list.values.iter().map(words).collect()
}

/// A flag that holds a list, if its parameter may be varied. One value is no axis, except for
/// UPDATE_PCT, READERS and WRITERS, which every sweep has.
fn axis_of(parameter: &Parameter, asked: &SweepArguments) -> Result<Option<List>, SettingError> {
    let Some(text) = asked.flags.get(parameter.key).filter(|_| parameter.key != "DB") else {
        return Ok(None);
    };
    if !text.contains(',') || !may_hold_commas_only_as_list(parameter) {
        return Ok(None);
    }
    let refuse = |rule: &str, hint: &str| {
        Err(SettingError::of(parameter, &parameter.shown(text), &Origin::Flag, rule, hint))
    };
    if parameter.key == "THREADS_PER_SCHEMA" {
        return refuse(
            "is no axis: a sweep raises the sessions over all schemas",
            "Write --sessions with the products, such as --sessions 4,8,16 for 4 schemas.",
        );
    }
    if !is_axis(parameter) {
        return refuse(
            "takes one value: it cannot be varied within a sweep",
            "Make a sweep for each value.",
        );
    }
    let values: Vec<String> = text.split(',').map(|value| value.trim().to_owned()).collect();
    if values.iter().any(String::is_empty) {
        return refuse("has an empty value in its list", "Write values with a comma between two.");
    }
    Ok(Some(List::new(parameter.key.to_ascii_lowercase(), values)))
}

/// A setting of the server with its values. One value is an axis, too: petal puts it back.
fn server_setting(text: &str) -> Result<List, SettingError> {
    let refuse = |rule: &str| {
        let hint =
            "Write --server-setting NAME=VALUE,VALUE, such as --server-setting work_mem=4MB,64MB.";
        Err(SettingError::elsewhere(format!("--server-setting {text}"), rule, hint))
    };
    let Some((name, values)) = text.split_once('=') else { return refuse("has no =") };
    let name = name.trim().to_ascii_lowercase();
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if !name.split('.').all(is_part) {
        return refuse("has a name that is no name of a setting");
    }
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    if values.iter().any(|value| value.is_empty() || value.contains(char::is_control)) {
        return refuse("has an empty value, or one with control characters");
    }
    Ok(List::new(format!("{SERVER_AXIS}{name}"), values))
}

/// True of a text, a path or a secret, whose value may hold commas.
fn may_hold_commas_only_as_list(parameter: &Parameter) -> bool {
    use super::table::ValueKind;
    !matches!(
        parameter.kind,
        ValueKind::Text | ValueKind::User | ValueKind::Path | ValueKind::Secret | ValueKind::Url
    )
}

/// Parameters that may differ from cell to cell on the same data.
pub fn is_axis(parameter: &Parameter) -> bool {
    match parameter.group {
        Group::Mix | Group::Pattern => parameter.key != "THREADS_PER_SCHEMA",
        Group::Io => parameter.key != "PAGE_CACHE_LIMIT",
        _ => matches!(
            parameter.key,
            "SCALE"
                | "BLOCK_SZ"
                | "RATE"
                | "SELECT_RATE"
                | "UPDATE_RATE"
                | "SCAN_RATE"
                | "RATE_SCALE"
                | "ARRIVALS"
        ),
    }
}

/// `--sessions`, which contradicts the other ways to say how many.
fn sessions(asked: &SweepArguments, apart: bool) -> Result<Option<List>, SettingError> {
    let Some(text) = &asked.sessions else { return Ok(None) };
    let refuse = |rule: String, hint: &str| {
        Err(SettingError::elsewhere(format!("--sessions {text}"), rule, hint))
    };
    if apart {
        let hint = "Leave out one or the other; --readers and --writers take lists too.";
        return refuse("contradicts READERS and WRITERS, which are the sessions".into(), hint);
    }
    if is_given(asked, "THREADS_PER_SCHEMA") {
        let hint = "Leave out one or the other.";
        return refuse("contradicts THREADS_PER_SCHEMA (--threads-per-schema)".into(), hint);
    }
    let most = 65_536;
    let number = |value: &str| value.trim().parse().ok().filter(|n: &u32| (1..=most).contains(n));
    let numbers: Option<Vec<u32>> = text.split(',').map(number).collect();
    match numbers {
        // Without signs and zeros in front.
        Some(numbers) => {
            let values = numbers.iter().map(u32::to_string).collect();
            Ok(Some(List::new("sessions", values)))
        }
        None => refuse(
            format!("must be whole numbers from 1 to {most} with commas between them"),
            "Write --sessions 1,2,4,8, for example.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spanned(
        flags: &[(&'static str, &str)],
        sessions: Option<&str>,
        targets: &[&str],
    ) -> Result<Axes, SettingErrors> {
        let asked = SweepArguments {
            flags: flags.iter().map(|(key, value)| (*key, (*value).to_owned())).collect(),
            sessions: sessions.map(str::to_owned),
            targets: targets.iter().map(|url| (*url).to_owned()).collect(),
            ..SweepArguments::default()
        };
        span_asked(&asked)
    }

    fn span_asked(asked: &SweepArguments) -> Result<Axes, SettingErrors> {
        span(
            asked,
            &Sources {
                command: CommandKind::Sweep,
                flags: BTreeMap::new(),
                environment: &|_| None,
                variables: &Vec::new,
                conf: None,
                directory: None,
                schemas: None,
            },
        )
    }

    fn lines(axes: &Axes) -> Vec<String> {
        axes.axes.iter().map(|(key, values)| format!("{key} {}", values.join(","))).collect()
    }

    #[test]
    fn sessions_vary_fastest_and_every_cell_is_a_runs_settings() {
        let axes = spanned(&[("UPDATE_PCT", "0,20")], Some("1,2,4"), &[]).unwrap();
        assert_eq!(lines(&axes), ["update_pct 0,20", "sessions 1,2,4"]);
        let cells: Vec<(u8, Option<u32>)> =
            axes.combinations.iter().map(|cell| (cell.update_pct, cell.sessions)).collect();
        let (one, two, four) = (Some(1), Some(2), Some(4));
        assert_eq!(cells, [(0, one), (0, two), (0, four), (20, one), (20, two), (20, four)]);
    }

    #[test]
    fn one_value_is_in_force_everywhere_and_update_pct_is_always_an_axis() {
        let flags = [("WORK_UNIT", "16"), ("REDO_STRESS", "lite,HEAVY")];
        let axes = spanned(&flags, Some("8"), &["sqlite:a", "sqlite:b,c"]).unwrap();
        assert_eq!(
            lines(&axes),
            ["db sqlite:a,sqlite:b,c", "redo_stress LITE,HEAVY", "update_pct 25", "sessions 8"]
        );
        assert_eq!(axes.combinations.len(), 4);
        assert!(axes.combinations.iter().all(|cell| cell.work_unit == 16));
        assert_eq!(axes.combinations[3].db.rest, "b,c");
    }

    #[test]
    fn a_target_may_have_a_short_name() {
        let targets = ["old=sqlite:/data/old", "sqlite:b=c,d"];
        let axes = spanned(&[("UPDATE_PCT", "0")], Some("8"), &targets).unwrap();
        assert_eq!(
            axes.axes[0],
            ("db".to_owned(), vec!["old".to_owned(), "sqlite:b=c,d".to_owned()])
        );
        let rests: Vec<&str> = axes.combinations.iter().map(|cell| cell.db.rest.as_str()).collect();
        assert_eq!(rests, ["/data/old", "b=c,d"]);
        let one = spanned(&[("UPDATE_PCT", "0")], Some("8"), &["old=sqlite:/data/old"]).unwrap();
        assert_eq!(one.combinations[0].db.rest, "/data/old");
        let twice = spanned(&[], Some("8"), &["a=sqlite:x", "a=sqlite:y"]).unwrap_err();
        assert!(twice.to_string().starts_with("DB=a: is twice in its list"), "{twice}");
    }

    #[test]
    fn a_setting_of_the_server_is_an_axis_also_with_one_value() {
        let asked = |settings: &[&str]| {
            span_asked(&SweepArguments {
                sessions: Some("1,2".to_owned()),
                server_settings: settings.iter().map(|text| (*text).to_owned()).collect(),
                ..SweepArguments::default()
            })
        };
        let axes = asked(&["Shared_Buffers=1GB, 4GB", "x.jit=off"]).unwrap();
        let server = ["server.shared_buffers 1GB,4GB", "server.x.jit off"];
        assert_eq!(lines(&axes)[..2], server);
        let cell = &axes.combinations[2];
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(cell.server_settings, [pair("shared_buffers", "4GB"), pair("x.jit", "off")]);
        assert_eq!(cell.record_map()["server.shared_buffers"], "4GB");
        for wrong in ["work_mem", "work_mem=", "work_mem=1MB,,", "a b=1", "a'b=1", "x.=1", "a=1\n2"]
        {
            assert!(asked(&[wrong]).is_err(), "{wrong}");
        }
        let twice = asked(&["a=1", "A=2"]).unwrap_err().to_string();
        assert!(twice.starts_with("--server-setting a: is given twice"), "{twice}");
    }

    #[test]
    fn readers_by_writers_leave_out_the_corner_without_sessions() {
        let axes = spanned(&[("READERS", "0,8"), ("WRITERS", "0,2")], None, &[]).unwrap();
        assert_eq!(lines(&axes), ["readers 0,8", "writers 0,2"]);
        assert_eq!(axes.combinations.len(), 3);
        let axes = spanned(&[("READERS", "4,8")], None, &[]).unwrap();
        assert_eq!(lines(&axes), ["readers 4,8", "writers 0"]);
    }

    #[test]
    fn lists_that_mean_nothing_are_refused() {
        let refused = |flags: &[(&'static str, &str)], sessions: Option<&str>| {
            spanned(flags, sessions, &[]).unwrap_err().to_string()
        };
        insta::assert_snapshot!(refused(&[("RUN_TIME", "30,60")], None), @"RUN_TIME=30,60 (--run-time): takes one value: it cannot be varied within a sweep. Make a sweep for each value.");
        insta::assert_snapshot!(refused(&[("THREADS_PER_SCHEMA", "1,2")], None), @"THREADS_PER_SCHEMA=1,2 (--threads-per-schema): is no axis: a sweep raises the sessions over all schemas. Write --sessions with the products, such as --sessions 4,8,16 for 4 schemas.");
        // A product that no computer can count.
        let many = (1..=1024).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        let axes = ["WORK_UNIT", "UPDATE_WORK_UNIT", "PREFETCH", "HOTSPOT_MB", "HOTSPOT_OFFSET_MB"];
        let axes = axes.into_iter().chain(["HOTSPOT_FREQUENCY", "HOT_SCHEMA_FREQUENCY"]);
        let axes: Vec<(&'static str, &str)> = axes.map(|key| (key, many.as_str())).collect();
        let error = refused(&axes, None);
        assert!(error.contains("is more than a sweep may have, 10000"), "{error}");
        insta::assert_snapshot!(refused(&[], Some("1,two")), @"--sessions 1,two: must be whole numbers from 1 to 65536 with commas between them. Write --sessions 1,2,4,8, for example.");
        insta::assert_snapshot!(refused(&[], Some("4,2,4")), @"SESSIONS=4: is twice in its list. Name each value once; REPEATS does a cell several times.");
        insta::assert_snapshot!(refused(&[("READERS", "4")], Some("1,2")), @"--sessions 1,2: contradicts READERS and WRITERS, which are the sessions. Leave out one or the other; --readers and --writers take lists too.");
        insta::assert_snapshot!(refused(&[("UPDATE_PCT", "0,,20")], None), @"UPDATE_PCT=0,,20 (--update-pct): has an empty value in its list. Write values with a comma between two.");
        insta::assert_snapshot!(refused(&[("UPDATE_PCT", "0,120"), ("WORK_UNIT", "1,2,0")], None), @"
        WORK_UNIT=0 (--work-unit): must be 1 to 1024 (default 64)
        UPDATE_PCT=120 (--update-pct): must be 0 to 100 (default 25)
        ");
    }
}
