//! The layout of a table's text: its separator, whether a comma separates thousands or decimals,
//! and its rows. CSV in its forms, tables with `|`, and columns separated by blanks, as programs
//! print them and blogs show them.

use csv::{ReaderBuilder, StringRecord, Trim};

/// A header and its rows, each with the same number of fields.
pub(super) struct TableParts {
    pub header: StringRecord,
    pub rows: Vec<StringRecord>,
    pub comma: Comma,
}

/// The meaning of a comma within a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comma {
    /// `1,234,567.5`.
    Thousands,
    /// `1.234.567,5`.
    Decimal,
    /// Nothing in the table decides it.
    Unclear,
}

const SEPARATORS: [char; 4] = ['\t', ';', '|', ','];

/// Splits a text into its table. An error is a sentence and the next step.
pub(super) fn lay_out(text: &str) -> Result<TableParts, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (named, text) = named_separator(text);
    let is_content = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    let lines: Vec<&str> = text.lines().filter(is_content).filter(|line| !is_rule(line)).collect();
    let separator = named.or_else(|| most_used(lines.first().copied().unwrap_or_default()));
    let (header, rows) = match separator {
        None => by_blanks(&lines)?,
        Some('|') => by_bars(&lines)?,
        Some(separator) => read(text, separator, true)?,
    };
    if rows.is_empty() {
        return Err("it holds no rows; a header and a row per run are needed".to_owned());
    }
    let comma = comma_of(rows.iter().flatten(), separator);
    Ok(TableParts { header, rows, comma })
}

/// The line `sep=;`, which spreadsheets write before the header.
fn named_separator(text: &str) -> (Option<char>, &str) {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let named = first.trim_end_matches('\r').trim_matches('"');
    let named =
        named.get(..4).filter(|word| word.eq_ignore_ascii_case("sep=")).map(|_| &named[4..]);
    match named.map(|named| named.chars().collect::<Vec<_>>()).as_deref() {
        Some(&[sign]) if SEPARATORS.contains(&sign) => (Some(sign), rest),
        _ => (None, text),
    }
}

/// The most frequent separator in the header; `None` if it has none of them.
fn most_used(header: &str) -> Option<char> {
    let count = |separator: &char| header.matches(*separator).count();
    // The last of equal ones wins: commas.
    let most = SEPARATORS.into_iter().max_by_key(count)?;
    (count(&most) > 0).then_some(most)
}

/// A line that only draws a rule: `|---|---|`, `+----+`, `-----  ----`.
fn is_rule(line: &str) -> bool {
    line.contains("--") && line.chars().all(|sign| "-+|:= \t\r".contains(sign))
}

fn read(
    text: &str,
    separator: char,
    quoting: bool,
) -> Result<(StringRecord, Vec<StringRecord>), String> {
    let unreadable =
        |error: csv::Error| format!("{error}; every row needs as many fields as the header");
    let mut reader = ReaderBuilder::new()
        .delimiter(separator as u8)
        .comment(Some(b'#'))
        .quoting(quoting)
        .trim(Trim::All)
        .from_reader(text.as_bytes());
    let header = reader.headers().map_err(unreadable)?.clone();
    let rows = reader.records().collect::<Result<_, _>>().map_err(unreadable)?;
    Ok((header, rows))
}

/// Splits lines at bars, which may also begin and end each line.
fn by_bars(lines: &[&str]) -> Result<(StringRecord, Vec<StringRecord>), String> {
    let header = lines.first().map_or("", |line| line.trim());
    let (begins, ends) = (header.starts_with('|'), header.ends_with('|'));
    let inner = |line: &&str| {
        let line = line.trim();
        let line = if begins { line.strip_prefix('|').unwrap_or(line) } else { line };
        (if ends { line.strip_suffix('|').unwrap_or(line) } else { line }).to_owned()
    };
    read(&lines.iter().map(inner).collect::<Vec<_>>().join("\n"), '|', false)
}

/// Columns separated by two blanks or more, with single ones within names; else by any blanks.
fn by_blanks(lines: &[&str]) -> Result<(StringRecord, Vec<StringRecord>), String> {
    let wide = |line: &&str| -> Vec<String> {
        let fields = line.split("  ").flat_map(|part| part.split('\t')).map(str::trim);
        fields.filter(|field| !field.is_empty()).map(str::to_owned).collect()
    };
    let narrow =
        |line: &&str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
    let by_wide: Vec<Vec<String>> = lines.iter().map(wide).collect();
    let by_any: Vec<Vec<String>> = lines.iter().map(narrow).collect();
    let is_even = |rows: &[Vec<String>]| {
        rows.first().is_some_and(|first| rows.iter().all(|row| row.len() == first.len()))
    };
    let rows = if is_even(&by_wide) && by_wide[0].len() > 1 { by_wide } else { by_any };
    let Some((header, rows)) = rows.split_first() else { return Ok(Default::default()) };
    let other = rows.iter().enumerate().find(|(_, row)| row.len() != header.len());
    if let Some((at, row)) = other {
        return Err(format!(
            "row {} has {} fields, and the header {}, taken apart at blanks; put commas between \
             the fields",
            at + 1,
            row.len(),
            header.len()
        ));
    }
    Ok((header.iter().collect(), rows.iter().map(|row| row.iter().collect()).collect()))
}

/// The meaning of commas, by the fields in which only one is possible.
fn comma_of<'a>(fields: impl Iterator<Item = &'a str>, separator: Option<char>) -> Comma {
    let (mut decimal, mut thousands, mut unclear) = (false, false, false);
    for field in fields.map(|field| field.trim_start_matches('-')) {
        let is_number = |sign: char| sign.is_ascii_digit() || sign == ',' || sign == '.';
        if !field.contains(',') || !field.chars().all(is_number) {
            continue;
        }
        match (is_grouped(field, ',', '.'), is_grouped(field, '.', ',')) {
            (true, _) if field.matches(',').count() == 1 && !field.contains('.') => unclear = true,
            (true, _) => thousands = true,
            (false, true) => decimal = true,
            (false, false) => {
                let parts = field.split_once(',');
                decimal |= parts.is_some_and(|(_, after)| !after.contains([',', '.']));
            }
        }
    }
    match (thousands, decimal) {
        (false, true) => Comma::Decimal,
        // People separate fields by semicolons only if a comma is the decimal sign.
        (false, false) if unclear && separator == Some(';') => Comma::Unclear,
        _ => Comma::Thousands,
    }
}

/// Whether `group` separates thousands, as commas do in `1,308,185.5`.
pub(super) fn is_grouped(field: &str, group: char, point: char) -> bool {
    let mut parts = field.split(point);
    let groups: Vec<&str> = parts.next().unwrap_or("").split(group).collect();
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let [first, rest @ ..] = groups.as_slice() else { return false };
    is_digits(first)
        && first.len() <= 3
        && *first != "0"
        && !rest.is_empty()
        && rest.iter().all(|group| group.len() == 3 && is_digits(group))
        && parts.next().is_none_or(is_digits)
        && parts.next().is_none()
}
