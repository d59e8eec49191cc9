//! The operations that a profile becomes, for a person.

use super::ReplayPlan;
use petal_record::server_work::WorkCount;
use petal_report::numbers::{or_dash, rate};
use petal_report::replay::{bulleted, times};
use petal_report::table::{Table, paragraph};

/// A plan, before its run.
pub fn plan(plan: &ReplayPlan) -> String {
    let of = format!("{}: {}", plan.of.database, plan.of.time);
    let mut out = paragraph("replay of ", "  ", &of);
    out.push('\n');
    bulleted(&mut out, "how       ", &plan.of.how);
    let parameters = plan.parameters();
    let shown: Vec<String> =
        parameters.iter().map(|(key, value)| format!("{key}={}", shortened(value))).collect();
    out.push_str(&paragraph("set       ", "          ", &shown.join(" ")));
    out.push('\n');
    let rows = WorkCount::ALL.into_iter().map(|figure| {
        let (of, here) = (plan.of.per_second.get(&figure), plan.expected.get(&figure));
        [
            figure.words().to_owned(),
            or_dash(of.copied(), rate),
            or_dash(here.copied(), |here| match plan.assumed.contains(&figure) {
                true => format!("~{}", rate(here)),
                false => rate(here),
            }),
            times(plan.ratio(figure)),
        ]
    });
    let heading = "per second | production | expected here | times";
    out.push_str(&Table::of_figures(heading).with_rows(rows).render());
    bulleted(&mut out, "differs   ", &plan.of.not_imitated);
    out
}

/// Steps of a day are too many for a line.
fn shortened(value: &str) -> String {
    let steps: Vec<&str> = value.split(' ').collect();
    match steps.as_slice() {
        [first, .., last] if steps.len() > 4 => {
            format!("'{first} ... {last}' ({} steps)", steps.len())
        }
        [_] => value.to_owned(),
        _ => format!("'{value}'"),
    }
}
