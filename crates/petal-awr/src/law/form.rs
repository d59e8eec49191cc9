//! Forms of cells: the shape that a release, a date or a count must have.

use super::super::number;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Digits without separators.
    Digits,
    /// A number in any form that reports print.
    Number,
    /// A version such as `19.0.0.0.0`.
    Release,
    YesNo,
    /// A date that ends with a time of day.
    Moment,
    /// A single word.
    Word,
    /// Words with one blank between them, the last no number.
    Words,
}

impl Form {
    /// True if the cell has the form; a blank cell, `-` and a number without room fit every form.
    pub fn fits(self, cell: &str) -> bool {
        let cell = cell.trim();
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if cell.is_empty() || cell == "-" || cell.bytes().all(|byte| byte == b'#') {
            return true;
        }
        match self {
            Self::Digits => is_digits(cell),
            Self::Number => number::count(cell).is_some(),
            Self::Release => {
                let parts = cell.split('.');
                (3..=5).contains(&parts.clone().count()) && parts.into_iter().all(is_digits)
            }
            Self::YesNo => matches!(cell, "YES" | "NO" | "Yes" | "No" | "Y" | "N"),
            Self::Moment => {
                let (begin, clock) = cell.rsplit_once(' ').unwrap_or_default();
                let mut parts = clock.split(':');
                let date = begin.split(' ').next().unwrap_or_default();
                date.starts_with(|c: char| c.is_ascii_digit())
                    && date.contains(['-', '/', '.'])
                    && parts.clone().count() > 1
                    && parts.all(|part| part.len() == 2 && is_digits(part))
            }
            Self::Word => !cell.contains(' '),
            Self::Words => {
                let last = cell.rsplit(' ').next().unwrap_or_default();
                !cell.contains("  ") && number::count(last).is_none()
            }
        }
    }

    /// Returns the numbers of words that a cell of this form may have.
    fn words(self) -> std::ops::RangeInclusive<usize> {
        match self {
            Self::Words => 1..=6,
            Self::Moment => 2..=3,
            _ => 1..=1,
        }
    }
}

/// Gives the words of a row to columns by their forms alone: without blank cells if possible, else
/// with blank numbers. `None` means a column that stays blank. Returns `None` unless exactly one
/// way fits.
pub fn by_forms(words: &[&str], forms: &[Option<Form>]) -> Option<Vec<String>> {
    let one = |may_skip: bool| {
        let mut found = Vec::new();
        assign(words, forms, may_skip, &mut Vec::new(), &mut found);
        (found.len(), found.pop())
    };
    match one(false) {
        (0, _) => Some(one(true)).filter(|(ways, _)| *ways == 1)?.1,
        (ways, found) => found.filter(|_| ways == 1),
    }
}

/// Adds each way that the words fit the forms, two at most.
fn assign(
    words: &[&str],
    forms: &[Option<Form>],
    may_skip: bool,
    begun: &mut Vec<String>,
    found: &mut Vec<Vec<String>>,
) {
    let Some((form, rest)) = forms.split_first() else {
        if words.is_empty() && found.len() < 2 {
            found.push(begun.clone());
        }
        return;
    };
    let is_numeric = matches!(form, Some(Form::Digits | Form::Number));
    let none = form.is_none() || may_skip && is_numeric;
    let counts = form.map(Form::words).into_iter().flatten();
    for count in none.then_some(0).into_iter().chain(counts) {
        let Some((taken, left)) = words.split_at_checked(count) else { break };
        let cell = taken.join(" ");
        if form.is_none_or(|form| form.fits(&cell)) {
            begun.push(cell);
            assign(left, rest, may_skip, begun, found);
            begun.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATABASE: [Option<Form>; 7] = [
        None,
        Some(Form::Digits),
        Some(Form::Word),
        Some(Form::Digits),
        Some(Form::Moment),
        Some(Form::Release),
        Some(Form::YesNo),
    ];

    fn cells(line: &str, forms: &[Option<Form>]) -> Option<Vec<String>> {
        by_forms(&line.split_whitespace().collect::<Vec<_>>(), forms)
    }

    #[test]
    fn cells_have_their_form() {
        assert!(Form::Release.fits("19.0.0.0.0") && !Form::Release.fits("08:00"));
        assert!(Form::YesNo.fits("NO") && !Form::YesNo.fits("19.0.0.0.0  NO"));
        assert!(Form::Moment.fits("16-2月 -13 10:00") && !Form::Moment.fits("01-Feb-26"));
        assert!(Form::Words.fits("Linux x86 64-bit") && !Form::Words.fits("Linux x86   16"));
        assert!(!Form::Words.fits("Linux x86 16") && !Form::Moment.fits("1 01-Feb-26 08:00"));
        assert!(Form::Digits.fits("") && Form::Digits.fits("-") && !Form::Digits.fits("64.0"));
    }

    #[test]
    fn words_find_their_columns_if_one_way_fits() {
        let row = "1234567890 customerdb1  1 01-Feb-26 08:00 19.0.0.0.0  NO";
        let found = cells(row, &DATABASE).unwrap();
        assert_eq!(found[2..], ["customerdb1", "1", "01-Feb-26 08:00", "19.0.0.0.0", "NO"]);
        let host = [Form::Word, Form::Words, Form::Digits, Form::Digits, Form::Number].map(Some);
        let found = cells("h1 Linux x86 64-bit 16 8 64.0", &host).unwrap();
        assert_eq!(found, ["h1", "Linux x86 64-bit", "16", "8", "64.0"]);
        // One count for two columns.
        assert_eq!(cells("h1 Linux x86 64-bit 16 64.0", &host), None);
        assert_eq!(cells("08:00 19.0.0.0.0", &DATABASE), None);
    }
}
