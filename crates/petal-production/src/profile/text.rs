//! A profile as text for a person: its rates, the busiest interval, the sources of its figures and
//! the gaps.

use petal_record::profile::{Profile, ProfileInterval};
use petal_record::server_work::{WorkCount, WorkTime};
use petal_report::numbers::{counted, micros, or_dash, rate, whole};
use petal_report::table::{Table, line, paragraph};

use petal_report::replay::length;

const GAPS_SHOWN: usize = 12;

pub fn render(profile: &Profile) -> String {
    let head = format!(
        "profile of {}: {}, {} in all, from {}",
        if profile.database.is_empty() { "a database without a name" } else { &profile.database },
        counted(profile.intervals.len() as u64, "interval"),
        length(profile.length_s()),
        profile.intervals.first().and_then(|it| it.begin.as_deref()).unwrap_or("an unknown time"),
    );
    let mut out = paragraph("", "  ", &head);
    out.push('\n');
    let busiest = profile.busiest();
    let rows = WorkCount::ALL.into_iter().map(|figure| {
        let of = profile.summary.percentiles.get(&figure);
        let known = of.map_or([None; 4], |of| [of.p50, of.p90, of.p99, of.max].map(Some));
        let in_busiest = busiest.and_then(|interval| interval.rate(figure));
        let figures = known.into_iter().chain([in_busiest]).map(|value| or_dash(value, rate));
        std::iter::once(figure.words().to_owned()).chain(figures)
    });
    let heading = "per second | p50 | p90 | p99 | highest | busiest";
    // The file has all of them.
    out.push_str(&Table::of_figures(heading).with_rows(rows).render_without(&["p90"]).0);
    if let Some(busiest) = busiest {
        out.push('\n');
        let text = format!(
            "{} for {}{}",
            busiest.begin.as_deref().unwrap_or("an unknown time"),
            length(busiest.length_s),
            latencies(busiest),
        );
        out.push_str(&paragraph("busiest   ", "          ", &text));
    }
    for gap in profile.gaps.iter().take(GAPS_SHOWN) {
        out.push_str(&paragraph("gap       ", "          ", gap));
    }
    if profile.gaps.len() > GAPS_SHOWN {
        let rest = whole((profile.gaps.len() - GAPS_SHOWN) as u64);
        out.push_str(&line(&format!("          {rest} more are in the file")));
    }
    out
}

fn latencies(interval: &ProfileInterval) -> String {
    let of = |figure: WorkTime| {
        Some(format!(", {} {} us", figure.words(), micros(interval.latency(figure)?)))
    };
    WorkTime::ALL.into_iter().filter_map(of).collect()
}
