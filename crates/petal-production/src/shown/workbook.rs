//! A workbook of AWR and Statspack reports.

use petal_awr::report::Report;
use petal_record::observation::Observation;
use petal_report::workbook::{PETALS, Sheet, XlsxError, petals_of, written};

use super::csv;
use crate::reports::observation::observation;

/// Builds a workbook of AWR and Statspack reports. They have no seconds.
pub fn reports(reports: &[Report]) -> Result<Vec<u8>, XlsxError> {
    let observations: Vec<Observation> = reports.iter().map(observation).collect();
    let mut waits = Sheet::new("waits", "file event waits time_s avg_us");
    for report in reports {
        let events = [&report.foreground_events, &report.top_events];
        let events = events.into_iter().find(|events| !events.is_empty());
        for event in events.into_iter().flatten() {
            let figures = [&event.waits, &event.time_s, &event.avg_us];
            let figures = figures.map(|figure| csv::plain(figure.clone()));
            waits
                .rows
                .push([vec![report.file.clone(), event.name.clone()], figures.into()].concat());
        }
    }
    written([
        (petals_of(&observations), &PETALS[..]),
        (Sheet::of("cells", csv::table(reports)), &[]),
        (waits, &[]),
    ])
}

#[cfg(test)]
mod tests {
    use calamine::{Data, Range, Reader as _, Xlsx};

    use super::*;

    /// Returns the values of a column, below its name.
    fn column(range: &Range<Data>, name: &str) -> Vec<Data> {
        let head = range.rows().next().unwrap();
        let at = head.iter().position(|cell| *cell == Data::String(name.to_owned())).unwrap();
        range.rows().skip(1).map(|row| row[at].clone()).collect()
    }

    #[test]
    fn awr_reports_have_their_columns_and_events() {
        let path = std::path::Path::new("../../tests/data/awr/awr_19c.html");
        let reports: Vec<Report> =
            petal_awr::read(path).reports.into_iter().map(Result::unwrap).collect();
        let book = std::io::Cursor::new(super::reports(&reports).unwrap());
        let mut book: Xlsx<_> = Xlsx::new(book).unwrap();
        let cells = book.worksheet_range("cells").unwrap();
        let read_us = petal_awr::columns::value(&reports[0], "read_us").unwrap();
        let Data::Float(reported) = column(&cells, "read_us")[0] else { panic!("no number") };
        assert!((reported - read_us).abs() <= read_us * 1e-5, "{reported} {read_us}");
        let waits = book.worksheet_range("waits").unwrap();
        assert!(column(&waits, "event").contains(&Data::String("db file sequential read".into())));
        assert!(column(&waits, "time_s").iter().any(|cell| matches!(cell, Data::Float(_))));
    }
}
