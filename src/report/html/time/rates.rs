//! Rates and means over time: a line for each, with a band where several seconds are one piece.

use super::super::super::charts::{Axis, Color, Figure, Frame, Plot, Scale, Series, Use, Variant};
use super::super::super::numbers::{UNKNOWN, decimal, or_dash, rate};
use super::{
    HEIGHT, Level, Pick, Piece, WIDTH, hits, known_runs, length, level, pieces_note, time_axis,
};
use crate::record::{Run, Second};

/// One line of a chart of rates.
struct Rate<'a> {
    name: &'a str,
    color: Color,
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

pub(super) fn io(run: &Run, pieces: &[Piece<'_>]) -> Option<Figure> {
    let count = |count: Option<u64>| count.map(|count| count as f64);
    let rates = [
        Rate {
            name: "reads",
            color: Color::Series(0),
            amount: Box::new(move |second| count(second.io?.physical_read_requests)),
            per: length,
        },
        Rate {
            name: "writes",
            color: Color::Series(1),
            amount: Box::new(move |second| count(second.io?.physical_write_requests)),
            per: length,
        },
    ];
    let titles = Titles {
        id: "io",
        title: "Physical I/O over time",
        y: &format!("PIOPS: physical requests per second ({})", run.told_by()),
        note: &format!("As {} counted them, without the log.", run.told_by()),
    };
    chart_of_rates(run, pieces, &titles, &rates)
}

pub(super) fn operations(run: &Run, pieces: &[Piece<'_>]) -> Option<Figure> {
    let rates = [Rate {
        name: "operations",
        color: Color::Series(2),
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

pub(super) fn device(run: &Run, pieces: &[Piece<'_>]) -> Option<Figure> {
    let rates = [
        Rate {
            name: "read",
            color: Color::Series(0),
            amount: Box::new(|second| Some(second.device?.read_bytes as f64 / 1e6)),
            per: length,
        },
        Rate {
            name: "written",
            color: Color::Series(1),
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

pub(super) fn device_wait(run: &Run, pieces: &[Piece<'_>]) -> Option<Figure> {
    let rates = [
        Rate {
            name: "read",
            color: Color::Series(0),
            amount: Box::new(|second| Some(second.device?.read_ms as f64 * 1000.0)),
            per: |second| Some(second.device?.read_requests as f64),
        },
        Rate {
            name: "write",
            color: Color::Series(1),
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

fn chart_of_rates(
    run: &Run,
    pieces: &[Piece<'_>],
    titles: &Titles<'_>,
    rates: &[Rate<'_>],
) -> Option<Figure> {
    let levels: Vec<Vec<Option<Level>>> = rates
        .iter()
        .map(|rate| pieces.iter().map(|piece| level(piece, &rate.amount, &rate.per)).collect())
        .collect();
    let known = || levels.iter().flatten().flatten();
    known().next()?;
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
        plot.series(number, |plot| {
            for run in known_runs(pieces, levels) {
                if is_pieced {
                    let band: Vec<_> = run.iter().map(|(x, l)| (*x, l.least, l.most)).collect();
                    plot.band(&band, rate.color, 0.2);
                }
                let line: Vec<_> = run.iter().map(|(x, level)| (*x, level.mean)).collect();
                plot.line(&line, rate.color, 1.6);
            }
        });
    }
    hits(&mut plot, pieces);
    let mut head = vec!["from s".to_owned()];
    for line in rates {
        head.push(line.name.to_owned());
        if is_pieced {
            head.extend([format!("{} least", line.name), format!("{} most", line.name)]);
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
    Some(Figure {
        id: titles.id.to_owned(),
        title: titles.title.to_owned(),
        note: format!("{}{}", titles.note, pieces_note(pieces, what)),
        is_wide: false,
        variants: vec![Variant { name: "linear", svg: plot.finish() }],
        series: rates
            .iter()
            .enumerate()
            .map(|(number, rate)| Series::line(number, rate.name, rate.color, "", None))
            .collect(),
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
