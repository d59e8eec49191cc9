//! Records in a list: a row of words and figures for each.

use std::collections::{BTreeMap, BTreeSet};

use super::html::moment;
use super::numbers::{UNKNOWN, counted, or_dash};
use super::records::ShownRecord;
use super::table::paragraph;
use petal_judge::distinct;
use petal_record::conclusions::limit_clause;
use petal_record::headline::Validity;
use petal_record::observation::metric;
use petal_record::sweep::Swept;
use petal_record::{Run, as_text};

/// Settings that are drawn, named or counted for each run: a difference means nothing.
const NOT_SHOWN: [&str; 5] = ["seed", "out", "repeats", "until_steady", "external_script"];

/// A record in a list.
#[derive(Debug, Clone, Default)]
pub struct ListedRecord {
    /// Name of the record in links: letters and digits.
    pub key: String,
    pub name: String,
    pub kind: &'static str,
    pub state: String,
    /// Start, in RFC 3339.
    pub measured: String,
    pub database: String,
    pub target: String,
    pub host: String,
    pub sessions: String,
    pub settings: BTreeMap<String, String>,
    /// Headline of a run, highest peak of a sweep, best reads of a calibration.
    pub piops: Option<f64>,
    pub read_us: Option<f64>,
    /// The source of the reads and the limit; of a sweep, what to know of its peak.
    pub verdict: String,
    /// None if it is not judged.
    pub validity: Option<Validity>,
}

/// The records below a folder, each with its verdict.
pub fn render(folder: &str, listed: &[ListedRecord]) -> String {
    let mut out =
        paragraph("", "", &format!("{} below {folder}", counted(listed.len() as u64, "record")));
    for record in listed {
        let started = moment(&record.measured);
        let head = format!("{}: {}, {}, {started}", record.name, record.kind, record.state);
        out.push_str(&format!("\n{}", paragraph("", "  ", &head)));
        out.push_str(&paragraph("  ", "    ", &record.verdict));
    }
    out
}

impl ListedRecord {
    pub fn of_run(name: String, run: &Run) -> Self {
        let summary = &run.summary;
        let headline = petal_judge::headline(run);
        let (served_by, limited_by) = (&headline.served_by.words, &headline.limited_by.words);
        Self {
            name,
            kind: "run",
            state: run.status_words().to_owned(),
            measured: summary.started_at.clone(),
            database: format!("{} {}", summary.target.product, summary.target.version),
            target: summary.target.url.clone(),
            host: run.details.host.as_ref().map_or_else(String::new, |host| host.name.clone()),
            sessions: summary.sessions.to_string(),
            settings: texts(&summary.settings),
            piops: headline.figures.piops.sum,
            read_us: headline
                .figures
                .read_us
                .filter(|_| headline.figures.read_us_stand_in.is_none()),
            verdict: format!(
                "{}; served by {served_by}; {}",
                headline.brief(),
                limit_clause(limited_by)
            ),
            validity: Some(headline.verdict.validity),
            ..Self::default()
        }
    }

    /// A sweep with those of its runs that could be read.
    pub fn of_sweep(name: String, swept: &Swept) -> Self {
        let Swept { sweep, runs, .. } = swept;
        let shown = ShownRecord::of_sweep(name, swept, None);
        let peaks = shown.petals.lines.iter().filter_map(|line| {
            let point = line.points.get(line.peak.or(line.struck_out)?)?;
            Some((point.figure(metric::PIOPS)?, point.figure(metric::READ_US), line))
        });
        let peak = peaks.max_by(|a, b| a.0.total_cmp(&b.0));
        let result = peak.filter(|(_, _, line)| line.struck_out.is_none());
        let axis = |key: &str| sweep.plan.axes.iter().find(|axis| axis.key == key);
        let mut settings = texts(&sweep.plan.settings);
        let axes = sweep.plan.axes.iter().filter(|axis| axis.key != "sessions");
        settings.extend(axes.map(|axis| (axis.key.clone(), axis.values.join(","))));
        let targets = runs.iter().map(|run| run.summary.target.url.as_str());
        Self {
            kind: "sweep",
            state: swept.status_words().to_owned(),
            measured: sweep.started_at.clone(),
            target: distinct(targets).join(", "),
            sessions: or_dash(axis("sessions"), |axis| axis.values.join(",")),
            settings,
            piops: result.map(|(piops, _, _)| piops),
            read_us: result.and_then(|(_, read_us, _)| read_us),
            verdict: or_dash(peak, |(_, _, line)| line.trust()),
            validity: peak.map(|(_, _, line)| match line.struck_out {
                Some(_) => Validity::NotStorage,
                None => Validity::Valid,
            }),
            name: shown.name,
            database: shown.database,
            host: shown.host,
            ..Self::default()
        }
    }

    /// True if it has a table of figures to download.
    pub fn has_table(&self) -> bool {
        ["run", "sweep"].contains(&self.kind)
    }

    /// The values of these settings, in one line; a dash if it has none of them.
    pub fn setting(&self, keys: &BTreeSet<&str>) -> String {
        let values = keys.iter().filter_map(|key| {
            let value = self.settings.get(*key)?;
            Some(format!("{} {value}", key.to_uppercase()))
        });
        let all = values.collect::<Vec<_>>().join(", ");
        if all.is_empty() { UNKNOWN.to_owned() } else { all }
    }
}

fn texts(settings: &serde_json::Map<String, serde_json::Value>) -> BTreeMap<String, String> {
    let is_shown = |(key, value): &(&String, &serde_json::Value)| {
        !value.is_null() && !NOT_SHOWN.contains(&key.as_str())
    };
    let shown = settings.iter().filter(is_shown);
    shown.map(|(key, value)| (key.clone(), as_text(value, "unset"))).collect()
}

/// The settings that distinguish these records, and the share of updates. A setting that only one
/// record has is no known difference.
pub fn differing(listed: &[ListedRecord]) -> BTreeSet<&str> {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (key, value) in listed.iter().flat_map(|record| &record.settings) {
        values.entry(key).or_default().insert(value);
    }
    let several = values.into_iter().filter(|(key, all)| all.len() > 1 || *key == "update_pct");
    several.map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use petal_record::fixture;

    #[test]
    fn settings_that_all_records_share_are_left_out() {
        let mut run = fixture::mixed_run();
        let listed = |run: &Run| ListedRecord::of_run("a".to_owned(), run);
        run.summary.settings.insert("hot_spot".to_owned(), false.into());
        let first = listed(&run);
        run.summary.settings.insert("hot_spot".to_owned(), true.into());
        run.summary.settings.insert("only_here".to_owned(), true.into());
        run.summary.settings.insert("seed".to_owned(), 7.into());
        let both = [first, listed(&run)];
        let keys = differing(&both);
        assert!(keys.contains("hot_spot") && keys.contains("update_pct"), "{keys:?}");
        let unknown_or_equal = ["seed", "only_here", "work_unit"];
        assert!(unknown_or_equal.iter().all(|key| !keys.contains(key)), "{keys:?}");
        assert!(both[1].setting(&keys).contains("HOT_SPOT true"), "{}", both[1].setting(&keys));
        assert_eq!(ListedRecord::default().setting(&keys), "-");
    }

    #[test]
    fn a_sweep_is_listed_with_its_highest_peak() {
        let swept = crate::sweep::tests::swept();
        let listed = ListedRecord::of_sweep("s".to_owned(), &swept);
        let all =
            swept.runs.iter().filter_map(|run| petal_judge::headline(run).figures.piops.reads);
        assert!(listed.piops.unwrap() >= all.fold(0.0, f64::max) / 2.0, "{listed:?}");
        assert!(listed.verdict.starts_with("served by "), "{}", listed.verdict);
        assert!(listed.has_table() && listed.settings.contains_key("update_pct"), "{listed:?}");
    }
}
