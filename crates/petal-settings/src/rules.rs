//! Rules between parameters, and against the target: contradictions are refused before anything is
//! touched, with key, value, rule and hint. Rules of one value alone are its kind's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::error::{Refusal, SettingError, SettingErrors, where_from};
use super::rates::RateOverTime;
use super::size::{Extent, format_bytes};
use super::table::{self, CommandKind, PARAMETERS, Support, support};
use super::{Origin, Settings, WarmUp};
use petal_host::numbers::whole;

/// SCALE of a setup that does not say.
pub const SETUP_SCALE: Extent = Extent::Bytes(80 << 20);

/// The smallest schema, in blocks.
pub const SCALE_BLOCKS_MIN: u64 = 1024;

/// The rows that a run or a load touches, once the block size is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectiveRows {
    /// Rows of each main table: SCALE in blocks.
    pub rows: u64,
    pub hot_spot: Option<HotRows>,
}

/// A hot spot in rows: the keys `offset + 1 ..= offset + rows`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotRows {
    pub offset: u64,
    pub rows: u64,
}

/// The findings of the rules.
#[derive(Debug, Default)]
pub(super) struct RuleResults {
    pub errors: Vec<SettingError>,
    pub notes: Vec<String>,
}

/// Checks the rules that do not need the target. Rules about a parameter in `failed`, which is
/// refused already, or about one that `command` does not take are silent.
pub(super) fn judge(
    settings: &Settings,
    command: CommandKind,
    failed: &BTreeSet<&'static str>,
) -> RuleResults {
    let mut judge = Judge { settings, command, failed, verdict: RuleResults::default() };
    judge.engine();
    judge.mix();
    judge.length();
    judge.rates();
    judge.data();
    judge.pattern();
    judge.connections();
    judge.hook();
    judge.sizes();
    judge.verdict
}

struct Judge<'a> {
    settings: &'a Settings,
    command: CommandKind,
    failed: &'a BTreeSet<&'static str>,
    verdict: RuleResults,
}

impl Judge<'_> {
    /// True when a rule about these keys applies; the first is the one that would be refused.
    fn binds(&self, keys: &[&str]) -> bool {
        let first = keys.first().and_then(|key| table::find(key));
        first.is_some_and(|parameter| parameter.taken_by.includes(self.command))
            && keys.iter().all(|key| !self.failed.contains(key))
    }

    fn refuse(&mut self, keys: &[&str], rule: impl Into<String>, hint: impl Into<String>) {
        if let (true, Some(key)) = (self.binds(keys), keys.first()) {
            self.verdict.errors.push(refusal(self.settings, key, rule, hint));
        }
    }

    fn note(&mut self, key: &str, text: &str) {
        if self.binds(&[key]) {
            let note = format!("{}: {text}", self.settings.with_origin(key));
            self.verdict.notes.push(note);
        }
    }

    /// Refuses settings that the target's engine does not support.
    fn engine(&mut self) {
        let Some(engine) = support::of(&self.settings.db.scheme) else { return };
        let mut without_effect: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let settings = self.settings;
        for parameter in PARAMETERS.iter().filter(|parameter| settings.is_given(parameter.key)) {
            let keys = [parameter.key];
            match engine.support(parameter) {
                Support::Full => {}
                Support::Remark(text) => self.note(parameter.key, text),
                Support::Only { values, rule, hint } => {
                    if !values.contains(&settings.shown(parameter.key).as_str()) {
                        self.refuse(&keys, rule, hint);
                    }
                }
                Support::Refused { rule, hint } => self.refuse(&keys, rule, hint),
                Support::NoEffect { reason } => {
                    if settings.origin(parameter.key) == Origin::Flag {
                        let rule = format!("has no effect on {}: {reason}", engine.product);
                        self.refuse(&keys, rule, "Leave it out.");
                    } else if self.binds(&keys) {
                        let origin = settings.origin(parameter.key);
                        let place = where_from(parameter.key, &origin);
                        let keys = without_effect.entry(reason).or_default();
                        keys.push(format!("{} ({place})", parameter.key));
                    }
                }
            }
        }
        // One line for each reason: SLOB's files carry most of these keys.
        let notes = without_effect.into_iter().map(|(reason, keys)| {
            format!("{}: no effect on {}: {reason}", keys.join(", "), engine.product)
        });
        self.verdict.notes.extend(notes);
    }

    /// READERS and WRITERS replace UPDATE_PCT and THREADS_PER_SCHEMA. Those are no contradiction
    /// if they come from a weaker source, such as the file under flags.
    fn mix(&mut self) {
        let settings = self.settings;
        if settings.readers.is_none() && settings.writers.is_none() {
            return;
        }
        let strongest = strength(settings, "READERS").max(strength(settings, "WRITERS"));
        for key in ["UPDATE_PCT", "THREADS_PER_SCHEMA"] {
            match strength(settings, key) {
                0 => {}
                given if given >= strongest => self.refuse(
                    &[key, "READERS", "WRITERS"],
                    "contradicts READERS and WRITERS, which name whole sessions instead",
                    "Leave out one or the other.",
                ),
                _ => self.note(key, "no effect with READERS and WRITERS"),
            }
        }
        if settings.readers.unwrap_or(0) == 0 && settings.writers.unwrap_or(0) == 0 {
            let key = if settings.readers.is_some() { "READERS" } else { "WRITERS" };
            self.refuse(
                &[key, "READERS", "WRITERS"],
                "leaves no session: READERS and WRITERS together must be at least 1",
                "Raise one of them, or leave both out.",
            );
        }
    }

    fn length(&mut self) {
        let settings = self.settings;
        if let WarmUp::Time(time) = settings.warm_up
            && time >= settings.run_time
            && !time.is_zero()
        {
            let rule = format!("must be less than {}", settings.with_origin("RUN_TIME"));
            let hint = "Shorten the warm-up or lengthen the run.";
            self.refuse(&["WARM_UP", "RUN_TIME"], rule, hint);
        }
    }

    /// Checks rates by kind, which are another way to set the mix.
    fn rates(&mut self) {
        let settings = self.settings;
        const KINDS: [&str; 3] = ["SELECT_RATE", "UPDATE_RATE", "SCAN_RATE"];
        for (key, rule) in [
            ("RATE_SCALE", "multiplies rates, and none is set"),
            ("ARRIVALS", "spaces the operations of a rate, and none is set"),
        ] {
            if settings.is_given(key) && settings.rate.is_none() && !settings.has_kind_rates() {
                let hint = format!("Set RATE, or SELECT_RATE and its like, or leave {key} out.");
                self.refuse(&[key], rule, &hint);
            }
        }
        let Some(first) = KINDS.into_iter().find(|key| settings.is_given(key)) else { return };
        if !settings.has_kind_rates() {
            return;
        }
        for key in ["RATE", "UPDATE_PCT", "SCAN_PCT", "READERS", "WRITERS"] {
            if settings.is_given(key) {
                let other = settings.with_origin(key);
                let rule = format!("sets a rate for each kind, which contradicts {other}");
                self.refuse(&[first, key], rule, "Leave out one or the other.");
            }
        }
        if settings.only_reads()
            && !settings.scans()
            && settings.select_rate.as_ref().is_none_or(RateOverTime::is_zero)
        {
            let rule = "leaves no operation: every rate is 0";
            self.refuse(&[first], rule, "Raise SELECT_RATE, UPDATE_RATE or SCAN_RATE.");
        }
    }

    fn data(&mut self) {
        let settings = self.settings;
        if settings.obfuscate_columns && settings.compress_ratio.is_some() {
            let other = settings.with_origin("OBFUSCATE_COLUMNS");
            self.refuse(
                &["COMPRESS_RATIO", "OBFUSCATE_COLUMNS"],
                format!("contradicts {other}, which fills rows with random text"),
                "Leave out one of them; COMPRESS_RATIO=1.0 is random text too.",
            );
        }
        if settings.scans() && settings.scan_table_sz.is_zero() {
            let other = settings.with_origin("SCAN_TABLE_SZ");
            self.refuse(
                &[
                    if settings.has_kind_rates() { "SCAN_RATE" } else { "SCAN_PCT" },
                    "SCAN_TABLE_SZ",
                ],
                format!("asks for scans, but {other} means that there is no scan table"),
                "Ask for no scans, or load with a SCAN_TABLE_SZ.",
            );
        }
    }

    fn pattern(&mut self) {
        let settings = self.settings;
        let seconds = |key: &str| settings.set_value(key).as_f64();
        if let (Some(min), Some(max)) = (seconds("THINK_TM_MIN"), seconds("THINK_TM_MAX"))
            && min > max
        {
            let rule = format!("must be at most {}", settings.with_origin("THINK_TM_MAX"));
            let hint = "Lower THINK_TM_MIN or raise THINK_TM_MAX.";
            self.refuse(&["THINK_TM_MIN", "THINK_TM_MAX"], rule, hint);
        }
        let hosts = settings.db.server().map_or(0, |server| server.hosts.len());
        let services = settings.endpoints.service_max.unwrap_or(0);
        if settings.hot_schema_frequency > 0 && (hosts > 1 || services > 1) {
            self.note(
                "HOT_SCHEMA_FREQUENCY",
                "every endpoint then touches the blocks of schema 1, so that endpoints are no \
                 longer apart",
            );
        }
    }

    fn connections(&mut self) {
        let endpoints = &self.settings.endpoints;
        if endpoints.service_max.is_some() && endpoints.service_base.is_none() {
            self.refuse(
                &["SQLNET_SERVICE_MAX", "SQLNET_SERVICE_BASE"],
                "numbers services, and SQLNET_SERVICE_BASE is not set",
                "Give SQLNET_SERVICE_BASE, or leave SQLNET_SERVICE_MAX out.",
            );
        }
        let hosts = self.settings.db.server().map_or(0, |server| server.hosts.len());
        if endpoints.service_base.is_some() && hosts > 1 {
            self.refuse(
                &["SQLNET_SERVICE_BASE", "DB"],
                format!("names the endpoints, and so do the {hosts} hosts of DB"),
                "Leave out one or the other.",
            );
        }
    }

    fn hook(&mut self) {
        let settings = self.settings;
        let programs = [
            ("EXTERNAL_SCRIPT", &settings.external_script),
            ("PASSWORD_COMMAND", &settings.password_command),
        ];
        for (key, program) in programs {
            if let Some(fault) = program.as_deref().and_then(|path| executable(path, key).err()) {
                self.refuse(&[key], fault.rule, fault.hint);
            }
        }
        if settings.password_command.is_some() && settings.db.password.is_some() {
            self.refuse(
                &["PASSWORD_COMMAND", "DB"],
                "prints a password, and DB has one".to_owned(),
                "Leave out one or the other.",
            );
        }
    }

    /// Refuses sizes that fit at no block size that the target may have.
    /// [`Settings::check_against`] checks the rest later.
    fn sizes(&mut self) {
        let settings = self.settings;
        let Some(scale) = settings.scale else { return };
        let candidates = match settings.block_sz {
            Some(block_size) => vec![block_size],
            None => vec![8192, 4096, 16384, 32768],
        };
        let refusals: Vec<Vec<SettingError>> = candidates
            .into_iter()
            .map(|block_size| size_errors(settings, scale.blocks(block_size.into()), block_size))
            .collect();
        let Some(first) = refusals.first() else { return };
        let everywhere = |error: &&SettingError| {
            refusals.iter().all(|other| other.iter().any(|o| o.key == error.key))
        };
        let certain: Vec<SettingError> = first
            .iter()
            .filter(everywhere)
            .filter(|error| self.binds(&[&error.key, "SCALE", "BLOCK_SZ"]))
            .cloned()
            .collect();
        self.verdict.errors.extend(certain);
    }
}

impl Settings {
    /// Checks the rules that need the target: its block size, and for a run the rows of the loaded
    /// schema that has fewest, with its number. Returns the settings in force.
    pub fn check_against(
        &self,
        block_size: u32,
        loaded_rows_min: Option<(u64, u32)>,
    ) -> Result<EffectiveRows, SettingErrors> {
        let asked = self.scale.map(|scale| scale.blocks(block_size.into()));
        let mut errors = Vec::new();
        let rows = match (asked, loaded_rows_min) {
            (Some(asked), Some((rows, schema))) if asked > rows => {
                let size = format_bytes(u64::from(block_size));
                errors.push(refusal(
                    self,
                    "SCALE",
                    format!(
                        "is {} blocks of {size}, but schema {schema} holds {} rows, one to a block",
                        whole(asked),
                        whole(rows)
                    ),
                    format!(
                        "Leave SCALE out, write at most SCALE={rows}, or load more with petal setup."
                    ),
                ));
                rows
            }
            (Some(asked), _) => asked,
            (None, Some((rows, _))) => rows,
            (None, None) => SETUP_SCALE.blocks(block_size.into()),
        };
        let is_run = loaded_rows_min.is_some();
        if let Some(asked) = self.block_sz.filter(|asked| is_run && *asked != block_size) {
            let there = format_bytes(u64::from(block_size));
            errors.push(refusal(
                self,
                "BLOCK_SZ",
                format!("is not the size of the blocks that are loaded, which is {there}"),
                format!(
                    "Leave BLOCK_SZ out, or load with blocks of {} (petal setup --replace).",
                    format_bytes(u64::from(asked))
                ),
            ));
        }
        errors.extend(
            size_errors(self, rows, block_size)
                .into_iter()
                .filter(|error| is_run || error.key == "SCALE"),
        );
        match errors.is_empty() {
            true => Ok(EffectiveRows { rows, hot_spot: hot_rows(self, block_size) }),
            false => Err(SettingErrors(errors)),
        }
    }
}

fn hot_rows(settings: &Settings, block_size: u32) -> Option<HotRows> {
    let block_size = u64::from(block_size).max(1);
    let spot = settings.hotspot?;
    Some(HotRows { offset: spot.offset_bytes / block_size, rows: spot.bytes / block_size })
}

/// Settings that do not fit into `rows` blocks of `block_size`.
fn size_errors(settings: &Settings, rows: u64, block_size: u32) -> Vec<SettingError> {
    let mut errors = Vec::new();
    let size = format_bytes(u64::from(block_size));
    if rows < SCALE_BLOCKS_MIN {
        let least = format_bytes(SCALE_BLOCKS_MIN * u64::from(block_size));
        errors.push(refusal(
            settings,
            "SCALE",
            format!(
                "is {} blocks of {size}, and must be at least {}",
                whole(rows),
                whole(SCALE_BLOCKS_MIN)
            ),
            format!("Write SCALE={SCALE_BLOCKS_MIN} or more, or SCALE={least} or more."),
        ));
    }
    let update = settings.update_work_unit;
    let is_apart = settings.is_given("UPDATE_WORK_UNIT") || update != settings.work_unit;
    for (key, unit, counts) in
        [("WORK_UNIT", settings.work_unit, true), ("UPDATE_WORK_UNIT", update, is_apart)]
    {
        if counts && u64::from(unit) > rows {
            let rule = format!("must be at most the {} blocks that SCALE leaves", whole(rows));
            errors.push(refusal(settings, key, rule, format!("Lower {key} or raise SCALE.")));
        }
    }
    let Some(spot) = hot_rows(settings, block_size) else { return errors };
    let unit = u64::from(settings.work_unit.max(update));
    if spot.rows < unit {
        errors.push(refusal(
            settings,
            "HOTSPOT_MB",
            format!(
                "is {} blocks of {size}, too short for a work unit of {unit}",
                whole(spot.rows)
            ),
            "Raise HOTSPOT_MB or lower WORK_UNIT.",
        ));
    }
    let end = spot.offset + spot.rows;
    if end > rows {
        errors.push(refusal(
            settings,
            "HOTSPOT_OFFSET_MB",
            format!(
                "with {} puts the hot spot's end at block {} of {size}, past the {} that \
                 SCALE leaves",
                settings.with_origin("HOTSPOT_MB"),
                whole(end),
                whole(rows)
            ),
            "Lower HOTSPOT_OFFSET_MB or HOTSPOT_MB, or raise SCALE.",
        ));
    }
    errors
}

fn refusal(
    settings: &Settings,
    key: &str,
    rule: impl Into<String>,
    hint: impl Into<String>,
) -> SettingError {
    SettingError {
        key: key.to_owned(),
        subject: settings.with_origin(key),
        rule: rule.into(),
        hint: hint.into(),
    }
}

/// Flag 3, environment 2, file 1, default 0.
fn strength(settings: &Settings, key: &str) -> u8 {
    match settings.origin(key) {
        Origin::Flag => 3,
        Origin::Environment(_) => 2,
        Origin::File(..) => 1,
        Origin::Default => 0,
    }
}

fn executable(path: &Path, key: &str) -> Result<(), Refusal> {
    let hint = format!("Name an executable file, or leave {key} out.");
    let refusal = |rule| Refusal::new(rule, &hint);
    let metadata =
        std::fs::metadata(path).map_err(|error| refusal(format!("cannot be called: {error}")))?;
    if !metadata.is_file() {
        return Err(refusal("is not a file".to_owned()));
    }
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).map_err(|error| {
        let why = std::io::Error::from(error);
        Refusal::new(format!("is not executable: {why}"), "Make it executable with chmod +x.")
    })
}

#[cfg(test)]
mod tests;
