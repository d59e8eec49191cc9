//! The price of neighbours: the answer in words, the table by layer, and the chart over time.

use petal_host::histogram::LatencySummary;
use petal_host::numbers::decimal;
use petal_record::Run;
use petal_record::interference::{NeighbourPrice, PricedFigure, PricedLayer};

use crate::charts::{Chart, ChartFrame, ChartSeries, Color, Plot, PlotAxis, Scale, Variant};
use crate::numbers::{micros, or_dash, rate};
use crate::table::Table;

/// A percentile of response times.
type PercentileOf = fn(&LatencySummary) -> Option<f64>;

/// Percentiles for the chart: the first that nearly every second has is drawn.
const DRAWN: [(&str, PercentileOf); 4] =
    [("p99", |it| it.p99), ("p95", |it| it.p95), ("p90", |it| it.p90), ("p50", |it| it.p50)];
const DRAWN_SHARE_MIN: f64 = 0.9;

/// Returns the answer for each neighbour, in a sentence.
pub(crate) fn lines(run: &Run) -> Vec<String> {
    run.summary.interference.iter().flatten().map(line).collect()
}

fn line(price: &NeighbourPrice) -> String {
    let name = &price.neighbour;
    if let Some(why) = &price.why_unknown {
        return format!("{name}: the price is unknown ({why})");
    }
    let users = || price.figures.iter().filter(|it| it.layer == PricedLayer::Users);
    let first = ["p99", "p50"];
    let ordered = first.into_iter().filter_map(|name| users().find(|it| it.figure == name));
    let ordered = ordered.chain(users().filter(|it| !first.contains(&it.figure.as_str())));
    let figures: Vec<String> =
        ordered.map(|figure| format!("{} {}", figure.figure, change(figure))).collect();
    let has_found = users().any(|figure| figure.is_found);
    let costs = if has_found { "costs users" } else { "shows no difference for users" };
    format!("{name} {costs}: {}", figures.join(", "))
}

/// `+35 % (28 to 43)`, or the smallest difference that would have been found.
fn change(figure: &PricedFigure) -> String {
    let Some(share) = figure.share else {
        return figure
            .why_unknown
            .as_ref()
            .map_or_else(|| "unknown".to_owned(), |why| format!("unknown ({why})"));
    };
    match (figure.is_found, figure.interval) {
        (true, Some((low, high))) => {
            format!("{} ({} to {})", signed(share), number(low), number(high))
        }
        _ => {
            format!("no difference found{}", smallest(figure))
        }
    }
}

/// Pairs that find only larger differences than this vary too much to say anything.
const SMALLEST_MAX: f64 = 3.0;

/// The smallest difference that would have been found: ` (under 3 %)`.
fn smallest(figure: &PricedFigure) -> String {
    match figure.smallest {
        None => String::new(),
        Some(smallest) if smallest > SMALLEST_MAX => " (pairs vary too much)".to_owned(),
        Some(smallest) => format!(" (under {} %)", number(smallest)),
    }
}

fn number(share: f64) -> String {
    decimal(share * 100.0, usize::from(share.abs() < 0.0995))
}

fn signed(share: f64) -> String {
    let sign = if share > 0.0 { "+" } else { "" };
    format!("{sign}{} %", number(share))
}

/// Every figure of every neighbour, by layer.
pub(crate) fn table(run: &Run) -> Table {
    table_of(run, |_| true, true)
}

/// The known figures, for a screen; of several neighbours only figures of the users. The lines above
/// say all that this column does.
pub(crate) fn brief_table(run: &Run) -> Table {
    let count = run.summary.interference.as_ref().map_or(0, Vec::len);
    let is_shown = move |figure: &PricedFigure| match count {
        0..=1 => figure.share.is_some(),
        2 => figure.layer == PricedLayer::Users,
        3..=4 => figure.layer == PricedLayer::Users && figure.figure == "p99",
        _ => false,
    };
    table_of(run, is_shown, false)
}

fn table_of(run: &Run, is_shown: impl Fn(&PricedFigure) -> bool, has_findings: bool) -> Table {
    let heading = "neighbour | layer | figure | without: | with: | change: | 95 % interval:";
    let last = if has_findings { " | finding" } else { "" };
    let mut table = Table::headed(&format!("{heading}{last}"));
    for price in run.summary.interference.iter().flatten() {
        let mut name = price.neighbour.chars().take(NAME_MAX).collect::<String>();
        let mut layer = "";
        for figure in price.figures.iter().filter(|figure| is_shown(figure)) {
            let shown = |value: f64| match figure.unit.as_str() {
                "us" => format!("{} us", micros(value)),
                unit => format!("{} {unit}", rate(value)),
            };
            let is_same = std::mem::replace(&mut layer, figure.layer.words()) == layer;
            let figures = [
                std::mem::take(&mut name),
                if is_same { String::new() } else { layer.to_owned() },
                figure.figure.clone(),
                or_dash(figure.without, shown),
                or_dash(figure.with, shown),
                or_dash(figure.share, signed),
                or_dash(figure.interval, |(low, high)| {
                    format!("{} to {}", number(low), number(high))
                }),
            ];
            table.row(figures.into_iter().chain(has_findings.then(|| finding_words(figure))));
        }
    }
    table
}

/// Letters of a neighbour's name in the table.
const NAME_MAX: usize = 16;

fn finding_words(figure: &PricedFigure) -> String {
    match (&figure.why_unknown, figure.is_found) {
        (Some(why), _) => why.clone(),
        (None, true) => "a difference".to_owned(),
        (None, false) => format!("none found{}", smallest(figure)),
    }
}

/// Slots of the run, and the rules of the figures.
pub(crate) fn notes(run: &Run) -> Vec<String> {
    let Some(seen) = &run.details.interference else { return Vec::new() };
    let prices = run.summary.interference.iter().flatten();
    let pairs = prices.map(|price| {
        let worked = or_dash(price.worked, |worked| format!("{} %", decimal(worked * 100.0, 0)));
        format!(
            "{}: {} pairs of slots, at work in {worked} of the counted time",
            price.neighbour, price.pairs
        )
    });
    let slots = format!(
        "{} slots of {} s, {} s of settling in each; response times count from the intended start; a \
         difference is one after the correction for all figures (Holm)",
        seen.slots.len(),
        decimal(seen.slot_s, 0),
        decimal(seen.settling_s, 0)
    );
    pairs.chain([slots, "the run's headline figures contain all slots".to_owned()]).collect()
}

/// A percentile of the response time each second, with the slots of each neighbour shaded.
pub(crate) fn chart(run: &Run) -> Option<Chart> {
    let seen = run.details.interference.as_ref()?;
    let known = |figure: PercentileOf| -> Vec<(f64, f64)> {
        let seconds = seen.seconds.iter();
        seconds.filter_map(|it| Some((it.from_s, figure(&it.response_us)?))).collect()
    };
    let least = (seen.seconds.len() as f64 * DRAWN_SHARE_MIN).max(2.0);
    let lines = DRAWN.into_iter().map(|(name, figure)| (name, known(figure)));
    let (name, line) = { lines }.find(|(_, line)| line.len() as f64 >= least)?;
    let most = line.iter().map(|(_, us)| *us).fold(0.0, f64::max) * 1.05;
    let until_s = line.last().map_or(1.0, |(at_s, _)| at_s + 1.0);
    let title = format!("{name} of the response time, with and without neighbours");
    let texts = ("interference-linear", title.as_str(), "response time over time, slots shaded");
    let across = PlotAxis::new(Scale::between(0.0, until_s), "seconds since the start");
    let up_label = format!("{name} of the response time, us (petal's clock)");
    let up = PlotAxis::new(Scale::linear([0.0, most]), &up_label);
    let mut plot = Plot::new(&ChartFrame::wide(texts, 200.0, across, up));
    for slot in seen.slots.iter().filter(|slot| slot.from_s < until_s) {
        let Some(index) = slot.neighbour else { continue };
        let place = [(slot.from_s, 0.0), (slot.to_s.min(until_s), most)];
        plot.series(1 + index, |plot| plot.rectangle(place, Color::Series(1 + index), 0.15));
    }
    plot.series(0, |plot| plot.line(&line, Color::Series(0), 1.6));
    let rows = line.iter().map(|(at_s, us)| [decimal(*at_s, 0), micros(*us)]);
    let table = Table::of_columns(["second", name]).with_rows(rows);
    let note =
        "From the intended start. A slot is shaded in the color of the neighbour at work in it.";
    let neighbours = seen.neighbours.iter().enumerate();
    let areas = neighbours
        .map(|(index, it)| ChartSeries::area(1 + index, &it.name, Color::Series(1 + index)));
    let legend = std::iter::once(ChartSeries::line(0, name, Color::Series(0), "", None));
    let variants = Variant::linear(plot.finish());
    let chart = Chart::new("interference", &title, note, variants, table);
    Some(chart.with_series(legend.chain(areas)))
}

/// A run of ten pairs with a neighbour that makes response times a third longer.
#[cfg(test)]
pub(crate) fn fixture() -> Run {
    use petal_record::interference::{
        Interference, InterferenceSlot, Neighbour, NeighbourStart, ResponseSecond,
    };
    use petal_record::{IntervalTotals, Ops, fixture};

    let mut run = fixture::mixed_run();
    let slot = |at: usize| {
        let neighbour = matches!(at % 4, 0 | 3).then_some(0);
        let from_s = at as f64 * 6.0;
        let noise = 1.0 + (at * 7 % 5) as f64 / 100.0;
        let figure = |us: f64| Some(us * noise * if neighbour.is_some() { 1.35 } else { 1.0 });
        let response = LatencySummary {
            count: 4000,
            mean: figure(600.0),
            p50: figure(500.0),
            p99: figure(2000.0),
            ..LatencySummary::default()
        };
        let start = NeighbourStart { at_s: from_s, ended_s: from_s + 6.0, ..Default::default() };
        InterferenceSlot {
            neighbour,
            from_s,
            to_s: from_s + 6.0,
            counted_from_s: from_s + 2.0,
            counted_to_s: from_s + 6.0,
            starts: neighbour.map(|_| start).into_iter().collect(),
            totals: Some(IntervalTotals {
                ops: Ops { total: 4000 + (at * 3 % 7) as u64, ..Ops::default() },
                op_response_us: Some(response),
                ..IntervalTotals::default()
            }),
            ops_within: None,
        }
    };
    let second = |from_s: u32| {
        let p50 = Some(f64::from(500 + from_s));
        let response_us = LatencySummary { count: 40, p50, ..LatencySummary::default() };
        ResponseSecond { from_s: f64::from(from_s), response_us }
    };
    run.details.interference = Some(Interference {
        neighbours: vec![Neighbour { name: "vacuum".to_owned(), output: None }],
        slot_s: 6.0,
        settling_s: 2.0,
        slots: (0..20).map(slot).collect(),
        seconds: (0..120).map(second).collect(),
        ..Interference::default()
    });
    petal_judge::conclude(&mut run);
    run
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::within;

    #[test]
    fn the_price_is_said_in_words_and_fits_on_a_screen() {
        let mut run = fixture();
        let said = lines(&run).join("\n");
        assert!(said.starts_with("vacuum costs users: p99 +3") && said.contains(" to "), "{said}");
        assert!(said.contains("throughput no difference found (under "), "{said}");
        let shown = within(80, || crate::text::brief(&run, "petal-results/x"));
        assert!(shown.lines().count() <= 40 && shown.contains("vacuum costs users"), "{shown}");
        let mut few = run.clone();
        let figures = &mut few.summary.interference.as_mut().unwrap()[0].figures;
        let p99 = figures.iter_mut().find(|figure| figure.figure == "p99").unwrap();
        (p99.share, p99.why_unknown) = (None, Some("too few operations".to_owned()));
        let said = lines(&few).join("\n");
        assert!(said.contains(" p99 unknown (too few operations), "), "{said}");
        let drawn = chart(&run).unwrap();
        assert!(drawn.title.starts_with("p50 of"), "{}", drawn.title);
        let legend: Vec<&str> = drawn.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(legend, ["p50", "vacuum"]);
        for count in 1..=6 {
            let mut several = run.clone();
            let prices = several.summary.interference.as_mut().unwrap();
            prices[0].neighbour = "cat /var/lib/db/data > /dev/null; sleep 1".to_owned();
            *prices = vec![prices[0].clone(); count];
            let finding = run.summary.findings[0].clone();
            let grave = petal_record::Severity::Warning;
            let finding = petal_record::Finding { severity: grave, ..finding };
            let message = "a long message of many words ".repeat(12);
            several.summary.findings = vec![petal_record::Finding { message, ..finding }; 9];
            let shown = within(80, || crate::text::brief(&several, "petal-results/x"));
            assert!(shown.lines().count() <= 40, "{shown}");
            let tables = shown.lines().filter(|line| line.starts_with("---")).count();
            assert!(tables <= 1, "{shown}");
        }
        let price = &mut run.summary.interference.as_mut().unwrap()[0];
        price.why_unknown = Some("it failed: exit code 2".to_owned());
        assert_eq!(lines(&run), ["vacuum: the price is unknown (it failed: exit code 2)"]);
    }
}
