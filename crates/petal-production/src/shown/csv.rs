//! CSV: a row per report, and per instance of a cluster behind it; file, kind and format, its
//! factors, then [`COLUMNS`](petal_awr::columns::COLUMNS). Plain numbers without thousands apart;
//! an empty field is unknown.

use petal_awr::columns::COLUMNS;
use petal_awr::figure::Figure;
use petal_awr::number::Scalar;
use petal_awr::report::Report;

use super::factor_names;
use petal_report::exact_rows::ExactRows;
use petal_report::json::word;

pub fn table(reports: &[Report]) -> ExactRows<'_> {
    let factors = factor_names(reports);
    let names = COLUMNS.iter().map(|column| column.name);
    let fixed = ["file", "kind", "format"];
    let all: Vec<&str> =
        fixed.into_iter().chain(factors.clone()).chain(names).chain(["findings"]).collect();
    let rows = reports.iter().flat_map(Report::with_instances).map(move |report| {
        let mut row = vec![report.file.clone(), word(&report.kind), word(&report.format)];
        row.extend(factors.iter().map(|name| report.factor(name).unwrap_or("").to_owned()));
        row.extend(COLUMNS.iter().map(|column| plain((column.value)(&report))));
        let findings: Vec<&str> =
            report.findings.iter().map(|finding| finding.id.as_str()).collect();
        row.push(findings.join(" "));
        row
    });
    ExactRows::new(all, rows)
}

/// Formats a figure with all known digits; a computed one with six significant digits.
pub fn plain(figure: Option<Figure>) -> String {
    match figure.map(|figure| (figure.value, figure.as_printed)) {
        None => String::new(),
        Some((Scalar::Text(text), _)) => text,
        Some((Scalar::Whole(value), _)) => value.to_string(),
        Some((Scalar::Decimal(value), Some(_))) => value.to_string(),
        Some((Scalar::Decimal(value), None)) => significant(value),
    }
}

/// Six digits, or all of the whole ones.
fn significant(value: f64) -> String {
    let whole = value.abs().log10().floor();
    let decimals = if whole.is_finite() { (5.0 - whole).clamp(0.0, 12.0) as usize } else { 0 };
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::significant;

    #[test]
    fn digits_that_matter() {
        let shown = [8781.12345678, 0.000123456789, 1234567.9, 0.0, 514.4].map(significant);
        assert_eq!(shown, ["8781.12", "0.000123457", "1234568", "0", "514.4"]);
    }
}
