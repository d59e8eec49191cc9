//! A profile as text for a person: its rates, the busiest interval, the sources of its figures and
//! the gaps.

use super::numbers::{counted, decimal, micros, or_dash, rate, whole};
use super::table::{Table, line, paragraph};
use petal_record::profile::{Profile, ProfileInterval};
use petal_record::server_work::{WorkCount, WorkTime};

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

/// Seconds as people say them.
pub fn length(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} minutes", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} hours", s / 3600.0),
        s => format!("{} days", decimal(s / 86_400.0, 1)),
    }
}
