//! A calibration as text: its summary in a few lines, then every point.

use petal_host::histogram::LatencySummary;
use petal_record::calibration::{Calibration, CurvePoint, LOG, MIX, READ, WRITE};
use petal_report::numbers::{bytes, decimal, micros, or_dash, whole};
use petal_report::table::{SCREEN_LINES, Table, fitting_paragraphs, line, paragraph};

/// Explanation of its figures.
pub const READING: &str = "us from submit to completion, petal's clock. Least and most are \
     the rounds'. At the device: requests in flight there on average, rate x await by the kernel's \
     counters; runs are compared by that.";

/// Notes, and objectives, on a screen.
const NOTES_MAX: usize = 3;
/// Depths of the curve on a screen: the highest ones.
const POINTS_MAX: usize = 9;
/// Columns of the curve on a screen, which fit in 80 characters.
const SHORT_COLUMNS: [usize; 7] = [0, 1, 4, 5, 6, 7, 9];

/// Lays out a calibration on one screen: its answer, the best of each measurement, and the read curve.
pub fn brief(calibration: &Calibration) -> String {
    let mut out = paragraph("", "  ", &answer(calibration));
    out.push('\n');
    out.push_str(&best_figures(calibration, false).render());
    for bound in latency_bounds(calibration).iter().take(NOTES_MAX) {
        out.push_str(&paragraph("", "  ", bound));
    }
    if let Some(points) = calibration.curves.get(READ) {
        out.push('\n');
        out.push_str(&line(&title(calibration, READ)));
        let first = points.len().saturating_sub(POINTS_MAX);
        out.push_str(&curve_columns(&points[first..], &SHORT_COLUMNS).render());
    }
    out.push('\n');
    let notes = calibration.notes.iter().map(|note| paragraph("- ", "  ", note));
    let room = SCREEN_LINES.saturating_sub(out.lines().count() + 1);
    out.push_str(&fitting_paragraphs(
        &notes.collect::<Vec<_>>(),
        NOTES_MAX,
        room,
        "note",
        "with --full",
    ));
    out + "--full shows all curves\n"
}

/// The highest rate of reads and of log writes, in a sentence.
fn answer(calibration: &Calibration) -> String {
    let device = calibration.device.as_ref().map_or("the device", |device| &device.name);
    let points = calibration.curves.get(READ).map_or(&[][..], Vec::as_slice);
    let best = points.iter().max_by(|a, b| a.iops.total_cmp(&b.iops));
    let mut words = match best {
        Some(best) => format!(
            "{device} serves {} reads a second of {} at depth {}, {} us each",
            decimal(best.iops, 0),
            bytes(calibration.block_bytes),
            best.depth,
            or_dash(best.latency_us.mean, micros),
        ),
        None => format!("{device}: no read was measured"),
    };
    if let Some(log) = &calibration.log {
        let (rate, mean) = (decimal(log.per_second, 0), or_dash(log.latency_us.mean, micros));
        words.push_str(&format!("; {rate} log writes with a sync, {mean} us each"));
    }
    let rounds = match rounds_range(calibration) {
        Some((1, 1)) => "1 round, which shows no spread".to_owned(),
        Some((fewest, most)) if fewest < most => format!("{fewest} to {most} rounds"),
        Some((rounds, _)) => format!("{rounds} rounds"),
        None => "no round".to_owned(),
    };
    format!("{words}; {}, {rounds}", calibration.status.name())
}

pub fn render(calibration: &Calibration) -> String {
    let mut out = head(calibration);
    out.push('\n');
    out.push_str(&figures(calibration).render());
    for line in latency_bounds(calibration) {
        out.push_str(&paragraph("", "  ", &line));
    }
    for name in [READ, MIX, WRITE] {
        if let Some(points) = calibration.curves.get(name) {
            out.push('\n');
            out.push_str(&line(&title(calibration, name)));
            out.push_str(&curve(points).render());
        }
    }
    if !calibration.log_curves.is_empty() {
        out.push('\n');
        out.push_str(&line(LOG_TITLE));
        out.push_str(&log_curves(calibration).render());
    }
    out.push('\n');
    for note in &calibration.notes {
        out.push_str(&paragraph("- ", "  ", note));
    }
    out.push_str(&paragraph("", "", READING));
    out
}

fn head(calibration: &Calibration) -> String {
    let mut out = line(&format!("petal {} calibration", calibration.petal_version));
    out.push('\n');
    for (name, value) in facts(calibration) {
        out.push_str(&paragraph(&format!("{name:<14}"), &" ".repeat(14), &value));
    }
    out
}

pub fn facts(calibration: &Calibration) -> Vec<(String, String)> {
    let device = calibration.device.as_ref().map_or("-", |device| &device.name);
    let elapsed_s = decimal(calibration.elapsed_s, 0);
    let lines = [
        ("status", calibration.status.name().to_owned()),
        ("measured", format!("{} ({}), on device {device}", calibration.path, calibration.kind)),
        ("on", format!("{} of incompressible data", bytes(calibration.bytes))),
        ("blocks of", format!("{} bytes", calibration.block_bytes)),
        ("direct I/O", if calibration.direct_io.used { "on" } else { "off" }.to_owned()),
        ("requests by", calibration.requests_by.clone()),
        ("host", format!("{}, Linux {}", calibration.host, calibration.kernel)),
        ("rounds", rounds(calibration)),
        ("began", format!("{}, took {elapsed_s} s", calibration.started_at)),
    ];
    lines.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Returns the number of rounds of its points.
fn rounds(calibration: &Calibration) -> String {
    or_dash(rounds_range(calibration), |range| match range {
        (fewest, most) if fewest < most => format!("{fewest} to {most}"),
        (1, _) => "1: too few for least and most".to_owned(),
        (rounds, _) => rounds.to_string(),
    })
}

/// Returns the fewest and the most rounds of a point.
fn rounds_range(calibration: &Calibration) -> Option<(u32, u32)> {
    let each = || calibration.curves.values().flatten().map(|point| point.rounds);
    each().min().zip(each().max())
}

pub fn title(calibration: &Calibration, name: &str) -> String {
    let reads = calibration.mix_read_pct;
    match name {
        READ => "RANDOM READS".to_owned(),
        WRITE => "RANDOM WRITES".to_owned(),
        _ => format!("RANDOM MIX, {reads} % reads and {} % writes", 100 - reads),
    }
}

/// The figures that a person asks for first.
pub fn figures(calibration: &Calibration) -> Table {
    best_figures(calibration, true)
}

/// The best of each measurement, and with `with_least` also the point at the least depth.
fn best_figures(calibration: &Calibration, with_least: bool) -> Table {
    let mut table = Table::of_figures(" | requests/s | MB/s | depth | mean us | p50 us | p99 us");
    let mut row =
        |what: String, iops: Option<f64>, mb_per_s, depth: u32, latency: &LatencySummary| {
            let [mean, p50, p99] =
                [latency.mean, latency.p50, latency.p99].map(|figure| or_dash(figure, micros));
            let iops = or_dash(iops, |iops| decimal(iops, 0));
            table.row([what, iops, decimal(mb_per_s, 1), depth.to_string(), mean, p50, p99]);
        };
    for name in [READ, MIX, WRITE] {
        let points = calibration.curves.get(name).map_or(&[][..], Vec::as_slice);
        let best = calibration.best.get(name);
        let at_best =
            points.iter().find(|point| best.is_some_and(|best| best.depth == point.depth));
        let least = points.first().filter(|_| with_least);
        for (when, point) in [("most", at_best), ("least depth", least)] {
            let Some(point) = point else { continue };
            let what = format!("{name}, {when}");
            row(what, Some(point.iops), point.mb_per_s, point.depth, &point.latency_us);
        }
    }
    for (name, in_order) in &calibration.in_order {
        let what = format!("{name} in order, {}", bytes(in_order.request_bytes));
        row(what, None, in_order.mb_per_s, in_order.depth, &in_order.latency_us);
    }
    if let Some(log) = &calibration.log {
        let what = "log write and sync".to_owned();
        let mb_per_s = log.per_second * log.bytes as f64 / 1e6;
        row(what, Some(log.per_second), mb_per_s, 1, &log.latency_us);
    }
    table
}

/// Lists the results for `--max-latency`.
pub fn latency_bounds(calibration: &Calibration) -> Vec<String> {
    let lines = calibration.under.iter().map(|under| {
        let bound = &under.bound;
        match (under.iops, under.depth, under.latency_us) {
            (Some(iops), Some(depth), Some(us)) => {
                let (iops, us) = (decimal(iops, 0), micros(us));
                match under.bound.starts_with(LOG) {
                    true => format!("under {bound}: {iops} log writes/s by {depth} writers, with {us} us"),
                    false => format!("under {bound}: {iops} requests/s at depth {depth}, with {us} us"),
                }
            }
            _ if under.unknown => format!(
                "under {bound}: not judged, as no depth had the requests for that figure: a p50 needs \
                 20, a p99 1,000"
            ),
            _ => format!("under {bound}: no measured depth keeps it"),
        }
    });
    lines.collect()
}

/// Title of [`log_curves`].
pub const LOG_TITLE: &str = "LOG WRITES, each durable before the writer's next";

pub fn log_curves(calibration: &Calibration) -> Table {
    let heading =
        "call | writers | writes/s | least | most | mean us | p50 us | p99 us | p99.9 us | max us";
    let curves = calibration.log_curves.iter();
    let points = curves.flat_map(|(call, points)| points.iter().map(move |point| (call, point)));
    Table::of_figures(heading).with_rows(points.map(|(call, point)| {
        let latency = &point.latency_us;
        let us = |figure| or_dash(figure, micros);
        [
            call.clone(),
            whole(point.depth.into()),
            decimal(point.iops, 0),
            of_rounds(point, point.iops_min),
            of_rounds(point, point.iops_max),
            us(latency.mean),
            us(latency.p50),
            us(latency.p99),
            us(latency.p99_9),
            us(latency.max),
        ]
    }))
}

/// The rate of one round; with one round it would be the figure itself, and look steady.
fn of_rounds(point: &CurvePoint, iops: f64) -> String {
    or_dash(Some(iops).filter(|_| point.rounds > 1), |iops| decimal(iops, 0))
}

const CURVE_COLUMNS: [&str; 10] = [
    "depth",
    "requests/s",
    "least",
    "most",
    "MB/s",
    "mean us",
    "p50 us",
    "p99 us",
    "max us",
    "at the device",
];

pub fn curve(points: &[CurvePoint]) -> Table {
    curve_columns(points, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
}

fn curve_columns(points: &[CurvePoint], columns: &[usize]) -> Table {
    let heading: Vec<&str> = columns.iter().map(|column| CURVE_COLUMNS[*column]).collect();
    Table::of_figures(&heading.join(" | ")).with_rows(points.iter().map(|point| {
        let latency = &point.latency_us;
        let cells = [
            whole(point.depth.into()),
            decimal(point.iops, 0),
            of_rounds(point, point.iops_min),
            of_rounds(point, point.iops_max),
            decimal(point.mb_per_s, 1),
            or_dash(latency.mean, micros),
            or_dash(latency.p50, micros),
            or_dash(latency.p99, micros),
            or_dash(latency.max, micros),
            or_dash(point.device_depth, |depth| decimal(depth, 1)),
        ];
        columns.iter().map(|column| cells[*column].clone()).collect::<Vec<String>>()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(rounds: u32) -> CurvePoint {
        CurvePoint {
            depth: 1,
            rounds,
            iops: 9.0,
            iops_min: 8.0,
            iops_max: 10.0,
            ..CurvePoint::default()
        }
    }

    #[test]
    fn of_one_round_there_is_no_least_and_no_most() {
        let row = |rounds| curve(&[point(rounds)]).render().lines().nth(2).unwrap().to_owned();
        let figures = |rounds| row(rounds).split_whitespace().take(4).collect::<Vec<_>>().join(" ");
        assert_eq!(figures(3), "1 9 8 10");
        assert_eq!(figures(1), "1 9 - -");
    }

    #[test]
    fn a_calibration_fits_on_a_screen() {
        let points = vec![point(3); 30];
        let all = Calibration {
            curves: [READ, MIX, WRITE].map(|name| (name.to_owned(), points.clone())).into(),
            notes: vec!["a note of many words ".repeat(20); 9],
            ..Calibration::default()
        };
        let shown = brief(&all);
        assert!(
            shown.starts_with("the device serves 9 reads a second of 0 B at depth 1, - us each; ")
        );
        assert!(shown.lines().count() <= SCREEN_LINES, "{shown}");
        assert!(shown.contains("6 more notes with --full"), "{shown}");
    }

    #[test]
    fn the_rounds_are_reported() {
        let rounds_of = |each: &[u32]| {
            let points = each.iter().map(|&rounds| point(rounds)).collect();
            rounds(&Calibration {
                curves: [(READ.to_owned(), points)].into(),
                ..Calibration::default()
            })
        };
        assert_eq!(rounds_of(&[3, 3]), "3");
        assert_eq!(rounds_of(&[3, 2]), "2 to 3");
        assert_eq!(rounds_of(&[1, 1]), "1: too few for least and most");
        assert_eq!(rounds_of(&[]), "-");
    }
}
