//! The run over time. A long run is drawn in a few hundred pieces of whole seconds: rates are the
//! mean of a piece with the least and the most of its seconds kept; percentiles, which have no
//! mean, are those of its middle and of its worst second. The note of each chart says so.

use super::super::charts::{
    Axis, ChartError, Figure, Frame, Ink, Plot, Scale, Series, Use, Variant,
};
use super::super::numbers::{UNKNOWN, decimal, micros, or_dash, rate};
use super::super::text::seconds::SECOND_S_MIN;
use crate::record::{Run, Second};

/// Pieces of a chart at most.
const PIECES_MAX: usize = 180;
const WIDTH: f64 = 556.0;
const HEIGHT: f64 = 275.0;

/// Some seconds in a row.
struct Piece<'a> {
    seconds: &'a [Second],
}

impl Piece<'_> {
    fn from_s(&self) -> f64 {
        self.seconds.first().map_or(0.0, |second| second.from_s)
    }

    fn to_s(&self) -> f64 {
        self.seconds.last().map_or(0.0, |second| second.from_s + second.length_s)
    }

    fn middle_s(&self) -> f64 {
        (self.from_s() + self.to_s()) / 2.0
    }
}

fn pieces(timeline: &[Second]) -> Vec<Piece<'_>> {
    // What is left of the last second has no rate to compare.
    let whole = match timeline.split_last() {
        Some((last, before)) if last.length_s < SECOND_S_MIN => before,
        _ => timeline,
    };
    let length = whole.len().div_ceil(PIECES_MAX).max(1);
    whole.chunks(length).map(|seconds| Piece { seconds }).collect()
}

/// Mean, least and most of a figure in one piece; None where a second lacks it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Level {
    mean: f64,
    least: f64,
    most: f64,
}

/// `amount` is what there was of it in a second, over `per`: the second's length, or a count.
fn level(piece: &Piece<'_>, amount: &Pick<'_>, per: &Pick<'_>) -> Option<Level> {
    let mut sum = (0.0, 0.0);
    let (mut least, mut most) = (f64::MAX, f64::MIN);
    for second in piece.seconds {
        let (amount, per) = (amount(second)?, per(second)?);
        if per > 0.0 {
            sum = (sum.0 + amount, sum.1 + per);
            (least, most) = (least.min(amount / per), most.max(amount / per));
        }
    }
    (sum.1 > 0.0).then(|| Level { mean: sum.0 / sum.1, least, most })
}

type Pick<'a> = dyn Fn(&Second) -> Option<f64> + 'a;

fn length(second: &Second) -> Option<f64> {
    Some(second.length_s)
}

/// One line of a chart of rates.
struct Rate<'a> {
    name: &'a str,
    ink: Ink,
    amount: Box<Pick<'a>>,
    per: fn(&Second) -> Option<f64>,
}

/// What a chart of rates is called.
struct Titles<'a> {
    id: &'a str,
    title: &'a str,
    y: &'a str,
    note: &'a str,
}

/// All charts over time; those without a known value are left out.
pub(super) fn figures(run: &Run) -> Result<Vec<Figure>, ChartError> {
    let pieces = pieces(&run.details.timeline);
    let mut figures = Vec::new();
    if pieces.len() < 2 {
        return Ok(figures);
    }
    figures.extend(io(run, &pieces)?);
    figures.extend(operations(run, &pieces)?);
    for (number, kind) in run.summary.latency_us.keys().enumerate() {
        figures.extend(latency(run, &pieces, kind, number)?);
    }
    figures.extend(processors(run, &pieces)?);
    figures.extend(device(run, &pieces)?);
    figures.extend(device_wait(run, &pieces)?);
    Ok(figures)
}

fn io(run: &Run, pieces: &[Piece<'_>]) -> Result<Option<Figure>, ChartError> {
    let count = |count: Option<u64>| count.map(|count| count as f64);
    let rates = [
        Rate {
            name: "reads",
            ink: Ink::Series(0),
            amount: Box::new(move |second| count(second.io?.physical_read_requests)),
            per: length,
        },
        Rate {
            name: "writes",
            ink: Ink::Series(1),
            amount: Box::new(move |second| count(second.io?.physical_write_requests)),
            per: length,
        },
    ];
    let titles = Titles {
        id: "io",
        title: "Physical I/O over time",
        y: "PIOPS: physical requests per second (the database)",
        note: "As the database counted them, without the log.",
    };
    chart_of_rates(run, pieces, &titles, &rates)
}

fn operations(run: &Run, pieces: &[Piece<'_>]) -> Result<Option<Figure>, ChartError> {
    let rates = [Rate {
        name: "operations",
        ink: Ink::Series(2),
        amount: Box::new(|second| Some(second.ops.total as f64)),
        per: length,
    }];
    let titles = Titles {
        id: "operations",
        title: "Operations over time",
        y: "operations per second (petal)",
        note: "Operations that ended in each second, errors not among them.",
    };
    chart_of_rates(run, pieces, &titles, &rates)
}

fn device(run: &Run, pieces: &[Piece<'_>]) -> Result<Option<Figure>, ChartError> {
    let rates = [
        Rate {
            name: "read",
            ink: Ink::Series(0),
            amount: Box::new(|second| Some(second.device?.read_bytes as f64 / 1e6)),
            per: length,
        },
        Rate {
            name: "written",
            ink: Ink::Series(1),
            amount: Box::new(|second| Some(second.device?.write_bytes as f64 / 1e6)),
            per: length,
        },
    ];
    let title = format!("Device {} over time", run.details.devices.join(", "));
    let titles = Titles {
        id: "device",
        title: &title,
        y: "MB per second (the device, /proc/diskstats)",
        note: "All that these devices served, whoever asked; the log is in here.",
    };
    chart_of_rates(run, pieces, &titles, &rates)
}

fn device_wait(run: &Run, pieces: &[Piece<'_>]) -> Result<Option<Figure>, ChartError> {
    let rates = [
        Rate {
            name: "read",
            ink: Ink::Series(0),
            amount: Box::new(|second| Some(second.device?.read_ms as f64 * 1000.0)),
            per: |second| Some(second.device?.read_requests as f64),
        },
        Rate {
            name: "write",
            ink: Ink::Series(1),
            amount: Box::new(|second| Some(second.device?.write_ms as f64 * 1000.0)),
            per: |second| Some(second.device?.write_requests as f64),
        },
    ];
    let title = format!("Latency of device {} over time", run.details.devices.join(", "));
    let titles = Titles {
        id: "device-wait",
        title: &title,
        y: "mean of a request, us (the device, /proc/diskstats)",
        note: "With its time in the queue: time over requests. The kernel counts whole milliseconds.",
    };
    chart_of_rates(run, pieces, &titles, &rates)
}

/// Seconds in a piece, as a note tells it.
fn pieces_note(pieces: &[Piece<'_>], what: &str) -> String {
    match pieces.first().map_or(1, |piece| piece.seconds.len()) {
        1 => String::new(),
        seconds => format!(" Drawn in pieces of {seconds} s: {what}."),
    }
}

fn time_axis(run: &Run, pieces: &[Piece<'_>]) -> Axis {
    let to = pieces.last().map_or(run.summary.elapsed_s, Piece::to_s);
    let from = pieces.first().map_or(0.0, Piece::from_s);
    Axis::new(Scale::between(from, to), "seconds since the trigger")
}

fn chart_of_rates(
    run: &Run,
    pieces: &[Piece<'_>],
    titles: &Titles<'_>,
    rates: &[Rate<'_>],
) -> Result<Option<Figure>, ChartError> {
    let levels: Vec<Vec<Option<Level>>> = rates
        .iter()
        .map(|rate| pieces.iter().map(|piece| level(piece, &rate.amount, &rate.per)).collect())
        .collect();
    let known = || levels.iter().flatten().flatten();
    if known().next().is_none() {
        return Ok(None);
    }
    let is_pieced = pieces.iter().any(|piece| piece.seconds.len() > 1);
    let mut plot = Plot::new(&Frame {
        id: titles.id,
        title: titles.title,
        description: &described(titles.y, rates.iter().map(|rate| rate.name).zip(&levels)),
        width: WIDTH,
        height: HEIGHT,
        x: time_axis(run, pieces),
        y: Axis::new(Scale::linear(known().map(|level| level.most)), titles.y),
        shown: Use::Page,
    });
    for (number, (rate, levels)) in rates.iter().zip(&levels).enumerate() {
        plot.group(&format!("class=\"series\" data-series=\"{number}\""), |plot| {
            for run in known_runs(pieces, levels) {
                if is_pieced {
                    let band: Vec<_> = run.iter().map(|(x, l)| (*x, l.least, l.most)).collect();
                    plot.band(&band, rate.ink, 0.2);
                }
                let line: Vec<_> = run.iter().map(|(x, level)| (*x, level.mean)).collect();
                plot.line(&line, rate.ink, 1.6);
            }
        });
    }
    hits(&mut plot, pieces);
    let mut head = vec!["from s".to_owned()];
    for rate in rates {
        head.push(rate.name.to_owned());
        if is_pieced {
            head.extend([format!("{} least", rate.name), format!("{} most", rate.name)]);
        }
    }
    let row = |(at, piece): (usize, &Piece<'_>)| {
        let mut cells = vec![decimal(piece.from_s(), 0)];
        for levels in &levels {
            let level = levels[at];
            cells.push(or_dash(level, |level| self::rate(level.mean)));
            if is_pieced {
                cells.push(or_dash(level, |level| self::rate(level.least)));
                cells.push(or_dash(level, |level| self::rate(level.most)));
            }
        }
        cells
    };
    let what = "the line is the mean, the band its slowest and fastest second";
    Ok(Some(Figure {
        id: titles.id.to_owned(),
        title: titles.title.to_owned(),
        note: format!("{}{}", titles.note, pieces_note(pieces, what)),
        is_wide: false,
        variants: vec![Variant { name: "linear", svg: plot.finish()? }],
        series: rates
            .iter()
            .enumerate()
            .map(|(number, rate)| Series::line(number, rate.name, rate.ink, "", None))
            .collect(),
        head,
        rows: pieces.iter().enumerate().map(row).collect(),
    }))
}

/// A pointer finds the piece in which it is.
fn hits(plot: &mut Plot, pieces: &[Piece<'_>]) {
    for (row, piece) in pieces.iter().enumerate() {
        plot.hit_column(piece.from_s(), piece.to_s(), row, "");
    }
}

/// The values in a row without a gap, each at the middle of its piece.
fn known_runs<T: Copy>(pieces: &[Piece<'_>], values: &[Option<T>]) -> Vec<Vec<(f64, T)>> {
    let mut runs = vec![Vec::new()];
    for (piece, value) in pieces.iter().zip(values) {
        match (value, runs.last_mut()) {
            (Some(value), Some(run)) => run.push((piece.middle_s(), *value)),
            _ => runs.push(Vec::new()),
        }
    }
    runs
}

fn described<'a>(
    what: &str,
    series: impl Iterator<Item = (&'a str, &'a Vec<Option<Level>>)>,
) -> String {
    let mut said = format!("{what}, over the seconds of the run.");
    for (name, levels) in series {
        let known = || levels.iter().flatten();
        let least = known().map(|level| level.least).fold(f64::MAX, f64::min);
        let most = known().map(|level| level.most).fold(f64::MIN, f64::max);
        match known().next() {
            Some(_) => said.push_str(&format!(" {name}: {} to {}.", rate(least), rate(most))),
            None => said.push_str(&format!(" {name}: {UNKNOWN}.")),
        }
    }
    said
}

/// The percentiles of one piece.
#[derive(Debug, Clone, Copy)]
struct Percentiles {
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
    count: u64,
}

fn percentiles(piece: &Piece<'_>, kind: &str) -> Option<Percentiles> {
    let all: Vec<_> =
        piece.seconds.iter().filter_map(|second| second.latency_us.get(kind)).collect();
    let middle = |pick: fn(&crate::stats::histogram::LatencySummary) -> Option<f64>| {
        let mut values: Vec<f64> = all.iter().filter_map(|latency| pick(latency)).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len().checked_sub(1)? / 2).copied()
    };
    let worst = |pick: fn(&crate::stats::histogram::LatencySummary) -> Option<f64>| {
        all.iter().filter_map(|latency| pick(latency)).reduce(f64::max)
    };
    Some(Percentiles {
        p50: middle(|latency| latency.p50)?,
        p90: middle(|latency| latency.p90)?,
        p99: worst(|latency| latency.p99)?,
        max: worst(|latency| latency.max)?,
        count: all.iter().map(|latency| latency.count).sum(),
    })
}

fn latency(
    run: &Run,
    pieces: &[Piece<'_>],
    kind: &str,
    number: usize,
) -> Result<Option<Figure>, ChartError> {
    let values: Vec<Option<Percentiles>> =
        pieces.iter().map(|piece| percentiles(piece, kind)).collect();
    let known = || values.iter().flatten();
    if known().next().is_none() {
        return Ok(None);
    }
    let ink = Ink::Series([3, 4, 6][number % 3]);
    let id = format!("latency-{number}");
    let title = format!("Latency of {kind} over time");
    let draw = |name: &'static str, y: Scale| -> Result<Variant, ChartError> {
        let mut plot = Plot::new(&Frame {
            id: &format!("{id}-{name}"),
            title: &title,
            description: "p50, p90, p99 and the slowest operation over the seconds of the run.",
            width: WIDTH,
            height: HEIGHT,
            x: time_axis(run, pieces),
            y: Axis::new(y, "operation latency, us (petal's clock)"),
            shown: Use::Page,
        });
        draw_percentiles(&mut plot, &known_runs(pieces, &values), ink);
        hits(&mut plot, pieces);
        Ok(Variant { name, svg: plot.finish()? })
    };
    let log = known().flat_map(|value| [value.p50, value.max]);
    let linear = known().map(|value| value.max);
    let row = |(piece, value): (&Piece<'_>, &Option<Percentiles>)| {
        let mut cells = vec![decimal(piece.from_s(), 0)];
        let figures: [fn(Percentiles) -> f64; 4] = [|v| v.p50, |v| v.p90, |v| v.p99, |v| v.max];
        cells.extend(figures.map(|figure| or_dash(*value, |value| micros(figure(value)))));
        cells.push(or_dash(*value, |value| super::super::numbers::whole(value.count)));
        cells
    };
    let what = "p50 and p90 are those of its middle second, p99 and the slowest of its worst";
    Ok(Some(Figure {
        note: format!(
            "A whole operation, commit included. Bands: p50 to p90, and to p99.{}",
            pieces_note(pieces, what)
        ),
        is_wide: false,
        variants: vec![draw("log", Scale::log(log))?, draw("linear", Scale::linear(linear))?],
        series: vec![
            Series::line(0, "p50", ink, "", None),
            Series::line(1, "p90", ink, "7 3", None),
            Series::line(2, "p99", ink, "3 3", None),
            Series::line(3, "slowest", Ink::Muted, "1 3", None),
        ],
        head: ["from s", "p50 us", "p90 us", "p99 us", "slowest us", "operations"]
            .map(str::to_owned)
            .into(),
        rows: pieces.iter().zip(&values).map(row).collect(),
        id,
        title,
    }))
}

fn draw_percentiles(plot: &mut Plot, runs: &[Vec<(f64, Percentiles)>], ink: Ink) {
    type Pick = fn(&Percentiles) -> f64;
    struct Edge {
        upper: Pick,
        lower: Option<Pick>,
        ink: Ink,
        dash: &'static str,
        width: f64,
    }
    let edges = [
        Edge { upper: |v| v.p50, lower: None, ink, dash: "none", width: 1.8 },
        Edge { upper: |v| v.p90, lower: Some(|v| v.p50), ink, dash: "7 3", width: 1.1 },
        Edge { upper: |v| v.p99, lower: Some(|v| v.p90), ink, dash: "3 3", width: 1.1 },
        Edge { upper: |v| v.max, lower: None, ink: Ink::Muted, dash: "1 3", width: 1.1 },
    ];
    for (number, edge) in edges.iter().enumerate().rev() {
        let attributes =
            format!("class=\"series\" data-series=\"{number}\" stroke-dasharray=\"{}\"", edge.dash);
        plot.group(&attributes, |plot| {
            for run in runs {
                if let Some(lower) = edge.lower {
                    let band: Vec<_> =
                        run.iter().map(|(x, v)| (*x, lower(v), (edge.upper)(v))).collect();
                    plot.band(&band, edge.ink, if number == 1 { 0.3 } else { 0.15 });
                }
                let line: Vec<_> = run.iter().map(|(x, v)| (*x, (edge.upper)(v))).collect();
                plot.line(&line, edge.ink, edge.width);
            }
        });
    }
}

/// The parts of the processors' time, one upon the other.
fn processors(run: &Run, pieces: &[Piece<'_>]) -> Result<Option<Figure>, ChartError> {
    type Pick = fn(&crate::stats::os::CpuShare) -> f64;
    let parts: [(&str, Ink, Pick); 4] = [
        ("user", Ink::Series(0), |cpu| cpu.user),
        ("system", Ink::Series(4), |cpu| cpu.system),
        ("steal", Ink::Series(3), |cpu| cpu.steal),
        ("waiting for I/O", Ink::Series(5), |cpu| cpu.iowait),
    ];
    let shares: Vec<Option<[f64; 4]>> = pieces
        .iter()
        .map(|piece| {
            let mut levels = [0.0; 4];
            for (share, (_, _, pick)) in levels.iter_mut().zip(&parts) {
                let amount = |second: &Second| Some(pick(&second.cpu?) * second.length_s);
                *share = level(piece, &amount, &length)?.mean;
            }
            Some(levels)
        })
        .collect();
    if shares.iter().flatten().next().is_none() {
        return Ok(None);
    }
    let mut plot = Plot::new(&Frame {
        id: "processors",
        title: "Processors over time",
        description: "User, system, steal and waiting for I/O, one upon the other, in per cent.",
        width: WIDTH,
        height: HEIGHT,
        x: time_axis(run, pieces),
        y: Axis::new(
            Scale::between(0.0, 100.0).with_ticks(vec![0.0, 25.0, 50.0, 75.0, 100.0]),
            "per cent of all processors (the operating system)",
        ),
        shown: Use::Page,
    });
    for (number, (_, ink, _)) in parts.iter().enumerate() {
        plot.group(&format!("class=\"series\" data-series=\"{number}\""), |plot| {
            for run in known_runs(pieces, &shares) {
                let below = |shares: &[f64; 4]| shares[..number].iter().sum::<f64>();
                let band: Vec<_> = run
                    .iter()
                    .map(|(x, shares)| (*x, below(shares), below(shares) + shares[number]))
                    .collect();
                plot.band(&band, *ink, if number == 3 { 0.3 } else { 0.75 });
            }
        });
    }
    hits(&mut plot, pieces);
    let row = |(piece, shares): (&Piece<'_>, &Option<[f64; 4]>)| {
        let mut cells = vec![decimal(piece.from_s(), 0)];
        cells.extend((0..4).map(|part| or_dash(*shares, |shares| decimal(shares[part], 1))));
        let rest = |shares: [f64; 4]| (100.0 - shares.iter().sum::<f64>()).max(0.0);
        cells.push(or_dash(*shares, |shares| decimal(rest(shares), 1)));
        cells
    };
    let names = parts.iter().enumerate();
    Ok(Some(Figure {
        id: "processors".to_owned(),
        title: "Processors over time".to_owned(),
        note: format!(
            "Of this host as a whole; what is empty was idle.{}",
            pieces_note(pieces, "each the mean of its seconds")
        ),
        is_wide: false,
        variants: vec![Variant { name: "linear", svg: plot.finish()? }],
        series: names.map(|(number, (name, ink, _))| Series::area(number, name, *ink)).collect(),
        head: ["from s", "user %", "system %", "steal %", "waiting for I/O %", "idle %"]
            .map(str::to_owned)
            .into(),
        rows: pieces.iter().zip(&shares).map(row).collect(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    #[test]
    fn pieces_keep_the_least_and_the_most_and_every_second() {
        let minute = fixture::timeline(60);
        let mut timeline: Vec<Second> = minute.iter().cycle().take(3600).cloned().collect();
        timeline[1234].ops.total = 7;
        let pieces = pieces(&timeline);
        assert!(pieces.len() <= PIECES_MAX);
        assert_eq!(pieces.iter().map(|piece| piece.seconds.len()).sum::<usize>(), 3600);
        let amount = |second: &Second| Some(second.ops.total as f64);
        let levels: Vec<Level> =
            pieces.iter().filter_map(|piece| level(piece, &amount, &length)).collect();
        let least = levels.iter().map(|level| level.least).fold(f64::MAX, f64::min);
        assert_eq!(least, 7.0);
        assert!(levels.iter().all(|level| level.least <= level.mean && level.mean <= level.most));
    }

    #[test]
    fn an_unknown_second_is_a_gap() {
        let mut run = fixture::mixed_run();
        run.details.timeline[20].io = None;
        let figures = figures(&run).unwrap();
        let shown = figures.iter().find(|figure| figure.id == "io").unwrap();
        assert_eq!(shown.rows[20][1..], ["-", "-"]);
        // A line on either side, for reads and for writes.
        assert_eq!(shown.variants[0].svg.matches("stroke-width=\"1.6\"").count(), 4);
    }

    #[test]
    fn figures_that_nobody_knows_have_no_chart() {
        let mut run = fixture::mixed_run();
        run.details.timeline.iter_mut().for_each(|second| {
            second.device = None;
            second.cpu = None;
        });
        let ids: Vec<String> = figures(&run).unwrap().into_iter().map(|f| f.id).collect();
        assert_eq!(ids, ["io", "operations", "latency-0", "latency-1"]);
    }
}
