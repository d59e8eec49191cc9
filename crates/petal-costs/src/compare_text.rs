//! Two records of an optimizer's prices side by side, as text: one screen.

use crate::compare::{CostsComparison, PriceChange, PriceRange};
use crate::record::Costs;
use crate::text::spread;
use petal_engine::costs::PriceUnit;
use petal_report::numbers::{counted, decimal, or_dash};
use petal_report::table::{SCREEN_LINES, Table, fitting_paragraphs, paragraph};

/// Warnings on the screen.
const WARNINGS_MAX: usize = 4;

pub fn render(names: [&str; 2], before: &Costs, after: &Costs, found: &CostsComparison) -> String {
    let mut out = String::new();
    for (title, name, costs) in [("before", names[0], before), ("after", names[1], after)] {
        out.push_str(&paragraph(
            &format!("{title:<8}"),
            "        ",
            &format!(
                "{name}: {} {}, {}, {}",
                costs.product,
                costs.version,
                costs.started_at.get(..19).unwrap_or(&costs.started_at),
                counted(costs.rounds, "round")
            ),
        ));
    }
    out.push('\n');
    let shown = shown(found, after.assumed_pct);
    out.push_str(&table(&shown).render());
    let judged: Vec<bool> = shown.iter().filter_map(|change| change.differs).collect();
    let differ = judged.iter().filter(|differs| **differs).count();
    let differing = format!(
        "{differ} of {} differ: their 95 % intervals do not meet. All conditions: --json",
        judged.len()
    );
    out.push_str(&paragraph("", "  ", &differing));
    let unknown = shown.len() - judged.len();
    if unknown > 0 {
        let not_judged =
            format!("{unknown} not judged: a value or its interval (three rounds) is missing");
        out.push_str(&paragraph("", "  ", &not_judged));
    }
    let warnings = found.warnings.iter().map(|warning| paragraph("- ", "  ", warning));
    let room = SCREEN_LINES.saturating_sub(out.lines().count());
    let warnings = warnings.collect::<Vec<_>>();
    out + &fitting_paragraphs(&warnings, WARNINGS_MAX, room, "warning", "with --json")
}

/// Changes that fit on a screen: every time, and each setting for the assumed cached share.
fn shown(found: &CostsComparison, assumed_pct: u8) -> Vec<&PriceChange> {
    let is_computed = |change: &PriceChange| {
        change.name.starts_with("sequential") && matches!(change.cached_pct, Some(1..100))
    };
    let is_assumed = |change: &PriceChange| match change.cached_pct {
        Some(pct) => change.sessions == 1 && pct == assumed_pct,
        None => true,
    };
    let is_shown = |change: &&PriceChange| match change.is_setting {
        true => is_assumed(change),
        false => !is_computed(change),
    };
    found.changes.iter().filter(is_shown).collect()
}

/// Table of changes, for text and pages.
fn table(changes: &[&PriceChange]) -> Table {
    let mut table = Table::of_figures("price | before | after | change | differs");
    for change in changes {
        let differs = change.differs.map(|differs| if differs { "yes" } else { "no" });
        let range = |range: PriceRange| {
            spread(range.value, range.low.zip(range.high).filter(|(low, _)| *low > 0.0))
        };
        let pct = |pct: f64| format!("{}{} %", if pct > 0.0 { "+" } else { "" }, decimal(pct, 0));
        let row: Vec<String> = vec![
            name(change),
            or_dash(change.before, range),
            or_dash(change.after, range),
            or_dash(change.change_pct, pct),
            or_dash(differs, str::to_owned),
        ];
        table.row(row);
    }
    table
}

/// The price with its condition, such as `random blocks, 90 % cached, us`.
fn name(change: &PriceChange) -> String {
    let access = match change.is_setting {
        true => change.name.as_str(),
        false => change.name.split(", one at a time").next().unwrap_or_default(),
    };
    let mut name = access.to_owned();
    if let Some(pct) = change.cached_pct.filter(|_| !change.is_setting) {
        name.push_str(&format!(", {pct} % cached"));
    }
    if change.sessions > 1 && !change.is_setting {
        name.push_str(&format!(", {}", counted(change.sessions, "session")));
    }
    if change.unit == PriceUnit::Microsecond && !change.is_setting {
        name.push_str(", us");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_has_every_time_and_the_settings_of_the_assumed_share() {
        let change = |name: &str, is_setting, cached_pct, differs| PriceChange {
            name: name.to_owned(),
            unit: if is_setting { PriceUnit::SequentialBlock } else { PriceUnit::Microsecond },
            is_setting,
            sessions: 1,
            cached_pct,
            before: Some(PriceRange { value: 206.0, low: Some(200.0), high: Some(212.0) }),
            after: Some(PriceRange { value: 103.4, low: None, high: None }),
            change_pct: Some(-49.8),
            differs,
        };
        let found = CostsComparison {
            changes: vec![
                change("random blocks, one at a time", false, Some(0), Some(true)),
                change("sequential blocks", false, Some(50), Some(true)),
                change("random_page_cost", true, Some(0), None),
                change("random_page_cost", true, Some(90), Some(false)),
                change("cpu_tuple_cost", true, Some(90), None),
            ],
            warnings: vec!["blocks: 8192 bytes before, 16384 after".to_owned()],
        };
        let costs = Costs {
            product: "PostgreSQL".to_owned(),
            version: "15.14".to_owned(),
            started_at: "2026-11-26T16:00:00Z".to_owned(),
            rounds: 10,
            assumed_pct: 90,
            ..Costs::default()
        };
        insta::assert_snapshot!(render(["a", "b"], &costs, &costs, &found), @r"
        before  a: PostgreSQL 15.14, 2026-11-26T16:00:00, 10 rounds
        after   b: PostgreSQL 15.14, 2026-11-26T16:00:00, 10 rounds

        price                            before  after  change  differs
        -----------------------------  --------  -----  ------  -------
        random blocks, 0 % cached, us  206 ±3 %    103   -50 %      yes
        random_page_cost               206 ±3 %    103   -50 %       no
        cpu_tuple_cost                 206 ±3 %    103   -50 %        -
        1 of 2 differ: their 95 % intervals do not meet. All conditions: --json
        1 not judged: a value or its interval (three rounds) is missing
        - blocks: 8192 bytes before, 16384 after
        ");
    }
}
