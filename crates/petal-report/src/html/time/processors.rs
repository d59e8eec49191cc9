//! The processors over time.

use super::super::super::charts::{Chart, ChartSeries, Color, PlotAxis, Scale, Variant};
use super::super::super::numbers::{decimal, or_dash};
use super::{ChartPiece, HEIGHT, TimeAxis, known_runs, length, level};
use crate::table::Table;
use petal_record::Second;

/// The parts of the processors' time, one upon the other.
pub(super) fn parts(axis: &TimeAxis<'_>) -> Option<Chart> {
    type Pick = fn(&petal_host::os::CpuShare) -> f64;
    let parts: [(&str, Color, Pick); 4] = [
        ("user", Color::Series(0), |cpu| cpu.user),
        ("system", Color::Series(4), |cpu| cpu.system),
        ("steal", Color::Series(3), |cpu| cpu.steal),
        ("waiting for I/O", Color::Series(5), |cpu| cpu.iowait),
    ];
    let shares: Vec<Option<[f64; 4]>> = axis
        .pieces
        .iter()
        .map(|piece| {
            let mut levels = [0.0; 4];
            for (share, (_, _, pick)) in levels.iter_mut().zip(&parts) {
                let amount = |second: &Second| Some(pick(&second.cpu?) * second.length_s);
                *share = level(piece, amount, length, |_| None)?.mean;
            }
            Some(levels)
        })
        .collect();
    shares.iter().flatten().next()?;
    let (id, title) = ("processors", "Processors over time");
    let description = "User, system, steal and waiting for I/O, one upon the other, in percent.";
    let percent = Scale::between(0.0, 100.0).with_ticks(vec![0.0, 25.0, 50.0, 75.0, 100.0]);
    let y = PlotAxis::new(percent, "percent of the processors (the operating system)");
    let svg = axis.drawing((id, title, description), HEIGHT, y, |plot| {
        for (number, (_, color, _)) in parts.iter().enumerate() {
            let below = |shares: &[f64; 4]| shares[..number].iter().sum::<f64>();
            let edges =
                |(x, shares): &(f64, [f64; 4])| (*x, below(shares), below(shares) + shares[number]);
            plot.series(number, |plot| {
                for run in known_runs(&axis.pieces, &shares) {
                    let band: Vec<_> = run.iter().map(edges).collect();
                    plot.band(&band, *color, if number == 3 { 0.3 } else { 0.75 });
                }
            });
        }
    });
    let row = |(piece, shares): (&ChartPiece<'_>, &Option<[f64; 4]>)| {
        let mut cells = vec![decimal(piece.begin_s(), 0)];
        cells.extend((0..4).map(|part| or_dash(*shares, |shares| decimal(shares[part], 1))));
        let rest = |shares: [f64; 4]| (100.0 - shares.iter().sum::<f64>()).max(0.0);
        cells.push(or_dash(*shares, |shares| decimal(rest(shares), 1)));
        cells
    };
    let note = format!(
        "Of the processors that {} may use; the empty part was idle.{}",
        axis.run.reported_by(),
        axis.note("each the mean of its seconds")
    );
    let series = parts.iter().enumerate();
    let series = series.map(|(number, (name, color, _))| ChartSeries::area(number, name, *color));
    let heading = "from s | user % | system % | steal % | waiting for I/O % | idle %";
    let values = Table::of_figures(heading).with_rows(axis.pieces.iter().zip(&shares).map(row));
    Some(Chart::new(id, title, note, Variant::linear(svg), values).with_series(series))
}
