//! Rates and means over time: a line for each, with a band where several seconds are one piece.

use super::super::super::charts::{Axis, Color, Figure, Scale, Series, Variant};
use super::super::super::numbers::{UNKNOWN, decimal, or_dash, rate};
use super::{Level, Piece, drawing, known_runs, length, level, pieces_note};
use crate::record::{Run, Second};

type Pick = fn(&Second) -> Option<f64>;

/// One line of a chart of rates: its name, the amount in a second, and what that is divided by.
type Rate = (&'static str, Pick, Pick);

/// What a chart of rates is called, and the color of its first line.
struct Titles<'a> {
    id: &'a str,
    title: &'a str,
    y: &'a str,
    note: &'a str,
    color: usize,
}

pub(super) fn io(run: &Run, pieces: &[Piece<'_>]) -> Option<Figure> {
    let rates: [Rate; 2] = [
        ("reads", |second| Some(second.io?.physical_read_requests? as f64), length),
        ("writes", |second| Some(second.io?.physical_write_requests? as f64), length),
    ];
    let y = &format!("PIOPS: physical requests per second ({})", run.reported_by());
    let note = &format!("As {} counted them, without the log.", run.reported_by());
    let titles = Titles { id: "io", title: "Physical I/O over time", y, note, color: 0 };
    chart_of_rates(run, pieces, &titles, &rates)
}

pub(super) fn operations(run: &Run, pieces: &[Piece<'_>]) -> Option<Figure> {
    let titles = Titles {
        id: "operations",
        title: "Operations over time",
        y: "operations per second (petal)",
        note: "Operations that ended in each second, errors not among them.",
        color: 2,
    };
    let rate: Rate = ("operations", |second| Some(second.ops.total as f64), length);
    chart_of_rates(run, pieces, &titles, &[rate])
}

pub(super) fn device(run: &Run, pieces: &[Piece<'_>]) -> Option<Figure> {
    let rates: [Rate; 2] = [
        ("read", |second| Some(second.device?.read_bytes as f64 / 1e6), length),
        ("written", |second| Some(second.device?.write_bytes as f64 / 1e6), length),
    ];
    let titles = Titles {
        id: "device",
        title: &format!("Device {} over time", run.details.devices.join(", ")),
        y: "MB per second (the device, /proc/diskstats)",
        note: "All that these devices served, whoever asked; the log is in here.",
        color: 0,
    };
    chart_of_rates(run, pieces, &titles, &rates)
}

pub(super) fn device_wait(run: &Run, pieces: &[Piece<'_>]) -> Option<Figure> {
    let rates: [Rate; 2] = [
        (
            "read",
            |second| Some(second.device?.read_ms as f64 * 1000.0),
            |second| Some(second.device?.read_requests as f64),
        ),
        (
            "write",
            |second| Some(second.device?.write_ms as f64 * 1000.0),
            |second| Some(second.device?.write_requests as f64),
        ),
    ];
    let titles = Titles {
        id: "device-wait",
        title: &format!("Latency of device {} over time", run.details.devices.join(", ")),
        y: "mean of a request, us (the device, /proc/diskstats)",
        note: "With its time in the queue: time over requests. The kernel counts whole milliseconds.",
        color: 0,
    };
    chart_of_rates(run, pieces, &titles, &rates)
}

fn chart_of_rates(
    run: &Run,
    pieces: &[Piece<'_>],
    titles: &Titles<'_>,
    rates: &[Rate],
) -> Option<Figure> {
    let levels: Vec<Vec<Option<Level>>> = rates
        .iter()
        .map(|(_, amount, per)| pieces.iter().map(|piece| level(piece, amount, per)).collect())
        .collect();
    let known = || levels.iter().flatten().flatten();
    known().next()?;
    let is_pieced = pieces.iter().any(|piece| piece.seconds.len() > 1);
    let color = |number: usize| Color::Series(titles.color + number);
    let names = || rates.iter().map(|(name, ..)| *name);
    let description = described(titles.y, names().zip(&levels));
    let y = Axis::new(Scale::linear(known().map(|level| level.most)), titles.y);
    let svg = drawing(run, pieces, titles.id, titles.title, &description, y, |plot| {
        for (number, levels) in levels.iter().enumerate() {
            plot.series(number, |plot| {
                for run in known_runs(pieces, levels) {
                    if is_pieced {
                        let band: Vec<_> = run.iter().map(|(x, l)| (*x, l.least, l.most)).collect();
                        plot.band(&band, color(number), 0.2);
                    }
                    let line: Vec<_> = run.iter().map(|(x, level)| (*x, level.mean)).collect();
                    plot.line(&line, color(number), 1.6);
                }
            });
        }
    });
    let mut head = vec!["from s".to_owned()];
    for name in names() {
        head.push(name.to_owned());
        if is_pieced {
            head.extend([format!("{name} least"), format!("{name} most")]);
        }
    }
    let row = |(at, piece): (usize, &Piece<'_>)| {
        let mut cells = vec![decimal(piece.begin_s(), 0)];
        for levels in &levels {
            let level = levels[at];
            cells.push(or_dash(level, |level| rate(level.mean)));
            if is_pieced {
                cells.push(or_dash(level, |level| rate(level.least)));
                cells.push(or_dash(level, |level| rate(level.most)));
            }
        }
        cells
    };
    let what = "the line is the mean, the band its slowest and fastest second";
    let line = |(number, name)| Series::line(number, name, color(number), "", None);
    Some(Figure {
        id: titles.id.to_owned(),
        title: titles.title.to_owned(),
        note: format!("{}{}", titles.note, pieces_note(pieces, what)),
        is_wide: false,
        variants: vec![Variant { name: "linear", svg }],
        series: names().enumerate().map(line).collect(),
        head,
        rows: pieces.iter().enumerate().map(row).collect(),
    })
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
