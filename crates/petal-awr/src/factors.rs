//! Factors of a run in the file name of its report: `awr.txt.128` has 128 sessions, `awr_20_16.txt`
//! UPDATE_PCT 20 and 16 sessions. A pattern describes any other naming scheme.

use std::path::Path;

use super::figure::number;
use super::report::Report;

/// Maximum number of placeholders in a pattern.
const PARTS_MAX: usize = 16;

/// Pattern for file names, such as `awr_{update_pct}_{sessions}.txt`: names in braces are factors,
/// `*` matches anything. It is compared with the end of a path, as many folders deep as the
/// pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    parts: Vec<PatternPart>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PatternPart {
    Literal(String),
    Factor(String),
    Anything,
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!("--pattern {text}: {what}; for instance 'awr_{{update_pct}}_{{sessions}}.txt'")
        };
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('{') {
                let (name, after) = inner.split_once('}').ok_or_else(|| wrong("has no }"))?;
                let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
                if name.is_empty() || !name.chars().all(is_name) {
                    return Err(wrong("a name is lower-case letters, digits and _"));
                }
                parts.push(PatternPart::Factor(name.to_owned()));
                rest = after;
            } else if let Some(after) = rest.strip_prefix('*') {
                parts.push(PatternPart::Anything);
                rest = after;
            } else {
                let to = rest.find(['{', '*']).unwrap_or(rest.len());
                let (literal, after) = rest.split_at(to);
                parts.push(PatternPart::Literal(literal.to_owned()));
                rest = after;
            }
        }
        if !parts.iter().any(|part| matches!(part, PatternPart::Factor(_))) {
            return Err(wrong("names no factor in braces"));
        }
        if parts.len() > PARTS_MAX * 2 {
            return Err(wrong("has too many parts"));
        }
        let adjacent =
            parts.windows(2).any(|two| !two.iter().any(|p| matches!(p, PatternPart::Literal(_))));
        if adjacent {
            return Err(wrong("needs some text between two names"));
        }
        Ok(Self { text: text.to_owned(), parts })
    }

    /// Returns the factors if the path's end matches the pattern.
    pub fn factors(&self, path: &Path) -> Option<Vec<(String, String)>> {
        let folders = self.text.matches('/').count();
        let shown = path.to_string_lossy();
        let mut ends = shown.rmatch_indices('/').map(|(at, _)| at + 1);
        let from = ends.nth(folders).unwrap_or(0);
        let end = shown.get(from..)?;
        let end = end.strip_suffix(".gz").filter(|_| !self.text.ends_with(".gz")).unwrap_or(end);
        matched(&self.parts, end)
    }
}

fn matched(parts: &[PatternPart], text: &str) -> Option<Vec<(String, String)>> {
    let Some((part, rest)) = parts.split_first() else {
        return text.is_empty().then(Vec::new);
    };
    match part {
        PatternPart::Literal(literal) => matched(rest, text.strip_prefix(literal.as_str())?),
        PatternPart::Factor(_) | PatternPart::Anything => {
            let least = usize::from(matches!(part, PatternPart::Factor(_)));
            let reach = text.find('/').unwrap_or(text.len());
            // The shortest value that lets the rest match.
            (least..=reach).filter(|&to| text.is_char_boundary(to)).find_map(|to| {
                // The next part begins with a text: matching can only continue at such a text.
                let after = text.get(to..)?;
                if let Some(PatternPart::Literal(next)) = rest.first()
                    && !after.starts_with(next.as_str())
                {
                    return None;
                }
                let mut factors = matched(rest, after)?;
                if let PatternPart::Factor(name) = part {
                    factors.insert(0, (name.clone(), text.get(..to)?.to_owned()));
                }
                Some(factors)
            })
        }
    }
}

/// Reads the factors from the usual file names. The report's own snapshot numbers are not factors.
pub fn of_name(path: &Path, report: &Report) -> Vec<(String, String)> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    if let Some((before, last)) = name.rsplit_once('.')
        && is_number(last)
        && before.contains('.')
    {
        return vec![("sessions".into(), without_zeros(last))];
    }
    let stem = name.split('.').next().unwrap_or(name);
    let Some(rest) = stem.strip_prefix("awr_") else { return Vec::new() };
    let numbers: Vec<&str> = rest.split('_').collect();
    let snapshots = [number(&report.header.begin_snap), number(&report.header.end_snap)];
    match numbers.as_slice() {
        [update_pct, sessions]
            if is_number(update_pct)
                && is_number(sessions)
                && update_pct.parse().is_ok_and(|pct: u32| pct <= 100)
                && [update_pct, sessions].map(|text| text.parse().ok()) != snapshots =>
        {
            vec![
                ("update_pct".into(), without_zeros(update_pct)),
                ("sessions".into(), without_zeros(sessions)),
            ]
        }
        _ => Vec::new(),
    }
}

fn is_number(text: &str) -> bool {
    (1..=6).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Removes leading zeros: `008` becomes 8.
fn without_zeros(digits: &str) -> String {
    digits.parse::<u32>().map_or_else(|_| digits.to_owned(), |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(name: &str) -> Vec<(String, String)> {
        of_name(Path::new(name), &Report::default())
    }

    fn factors(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn usual_names() {
        assert_eq!(named("x/awr.txt.128"), factors(&[("sessions", "128")]));
        assert_eq!(named("awr.html.008.gz"), factors(&[("sessions", "8")]));
        let mixed = factors(&[("update_pct", "0"), ("sessions", "16")]);
        assert_eq!(named("awr_0_16.txt"), mixed);
        assert_eq!(named("awr_0_16.html.gz"), mixed);
    }

    #[test]
    fn names_that_say_nothing() {
        for name in [
            "awrrpt_1_1822_1823.html",
            "sp_548_549.lst",
            "report.txt",
            "awr_500_16.txt",
            "awr.txt",
            "",
            "128",
            "awr_1_2_3.txt",
        ] {
            assert_eq!(named(name), factors(&[]), "{name}");
        }
    }

    #[test]
    fn patterns_name_factors() {
        let pattern =
            |text: &str, path: &str| Pattern::parse(text).unwrap().factors(Path::new(path));
        let two = factors(&[("update_pct", "20"), ("sessions", "64")]);
        assert_eq!(
            pattern("run_{update_pct}pct_{sessions}.lst", "a/run_20pct_64.lst"),
            Some(two.clone())
        );
        assert_eq!(pattern("{update_pct}/{sessions}/awr*", "/x/20/64/awrrpt_1.txt"), Some(two));
        assert_eq!(pattern("a{sessions}.txt", "b/a8.txt.gz"), Some(factors(&[("sessions", "8")])));
        assert_eq!(pattern("a{sessions}.txt", "b8.txt"), None);
        for wrong in ["awr.txt", "{", "{}", "{A}", "{a}{b}", "{a}*"] {
            let error = Pattern::parse(wrong).unwrap_err();
            assert!(error.contains("for instance 'awr_{update_pct}_{sessions}.txt'"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_pattern_reads_the_names_that_it_writes(
            first in "[a-z0-9]{1,8}", second in "[a-z0-9]{1,8}", folder in "[a-z/]{0,9}",
        ) {
            let pattern = Pattern::parse("x-{one}-{two}.txt").unwrap();
            let path = format!("{folder}/x-{first}-{second}.txt");
            let found = pattern.factors(Path::new(&path));
            prop_assert_eq!(found, Some(factors(&[("one", &first), ("two", &second)])));
        }

        #[test]
        fn any_pattern_and_path_end(text in "[a*{}_/]{0,12}", path in "[a_/]{0,40}") {
            if let Ok(pattern) = Pattern::parse(&text) {
                pattern.factors(Path::new(&path));
            }
        }
    }
}
