//! A figure: its value, its printed form and its section in the report. Computed figures have no
//! printed form.

use std::sync::Arc;

use serde::Serialize;

use super::number::{self, Printed, Scalar};
use super::page::{PageTable, TableRow, cell};

/// A value out of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    pub value: Scalar,
    /// Text in the report; null if petal computed the figure.
    pub as_printed: Option<String>,
    /// Section of the report, or how the value was computed.
    pub section: Arc<str>,
    /// Size of one unit of the last digit, in units of `value`.
    #[serde(skip)]
    pub step: f64,
}

impl Figure {
    pub fn text(text: &str, section: &Arc<str>) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self {
            value: Scalar::Text(text.to_owned()),
            as_printed: Some(text.to_owned()),
            section: section.clone(),
            step: 0.0,
        })
    }

    /// Makes a text that the report does not print as it is.
    pub fn made(text: &str, section: &Arc<str>) -> Option<Self> {
        Some(Self { as_printed: None, ..Self::text(text, section)? })
    }

    /// Reads a cell with `parse`; returns `None` for a blank or unreadable cell.
    pub fn read(
        cell: &str,
        section: &Arc<str>,
        parse: impl Fn(&str) -> Option<Printed>,
    ) -> Option<Self> {
        let cell = cell.trim();
        let printed = parse(cell)?;
        Some(Self {
            value: printed.value,
            as_printed: Some(cell.to_owned()),
            section: section.clone(),
            step: printed.step,
        })
    }

    /// Makes a figure that is computed from others. `step` is how far it may be off, as in
    /// [`Figure::step`].
    pub fn computed(value: f64, step: f64, how: String) -> Option<Self> {
        value.is_finite().then(|| Self {
            value: Scalar::Decimal(value),
            as_printed: None,
            section: how.into(),
            step,
        })
    }

    /// Sums some figures; `how` names them.
    pub fn sum(figures: &[Self], how: String) -> Option<Self> {
        let total = figures.iter().filter_map(Self::number).sum();
        Self::computed(total, figures.iter().map(|figure| figure.step).sum(), how)
    }

    pub fn number(&self) -> Option<f64> {
        self.value.number()
    }

    /// Returns the figure as a decimal number in another unit; its printed form stays.
    pub fn scaled(self, factor: f64) -> Option<Self> {
        let value = Scalar::Decimal(self.number()? * factor);
        Some(Self { value, step: self.step * factor, ..self })
    }

    /// Returns half a unit of the last digit as a share of the value; infinite for a printed 0,
    /// which only means "less than can be shown".
    pub fn uncertainty(&self) -> f64 {
        let size = self.number().unwrap_or(0.0).abs();
        if size > 0.0 { self.step / 2.0 / size } else { f64::INFINITY }
    }

    /// Returns the printed form, else the value.
    pub fn shown(&self) -> String {
        match (&self.as_printed, &self.value) {
            (Some(printed), _) => printed.clone(),
            (None, Scalar::Text(text)) => text.clone(),
            (None, value) => value.number().map_or_else(String::new, |number| number.to_string()),
        }
    }
}

impl PageTable {
    /// Reads the count, rate or time in a row, from the first of these headings that the table has.
    pub fn count(&self, row: TableRow<'_>, keys: &[&str]) -> Option<Figure> {
        self.count_at(row, self.column(keys))
    }

    /// Reads the count, rate or time in a row's cell.
    pub fn count_at(&self, row: TableRow<'_>, at: Option<usize>) -> Option<Figure> {
        Figure::read(cell(row, at), &self.title, number::count)
    }

    /// Reads the text in a row, from the first of these headings that the table has.
    pub fn text(&self, row: TableRow<'_>, keys: &[&str]) -> Option<Figure> {
        Figure::text(cell(row, self.column(keys)), &self.title)
    }
}

/// Fills a field that no other table has filled.
pub fn put(place: &mut Option<Figure>, found: Option<Figure>) {
    if place.is_none() {
        *place = found;
    }
}

/// Returns a figure as the report prints it, if it is known.
pub fn shown(figure: &Option<Figure>) -> Option<String> {
    figure.as_ref().map(Figure::shown)
}

/// Returns the number of a figure that may be missing.
pub fn number(figure: &Option<Figure>) -> Option<f64> {
    figure.as_ref().and_then(Figure::number)
}

/// Chooses the figure with more digits; a printed 0 of a finite figure never wins over anything
/// else.
pub fn more_precise(one: Option<Figure>, other: Option<Figure>) -> Option<Figure> {
    match (one, other) {
        (Some(one), Some(other)) if other.uncertainty() < one.uncertainty() => Some(other),
        (one, other) => one.or(other),
    }
}
