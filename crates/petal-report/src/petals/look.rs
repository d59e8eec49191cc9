//! The look of lines, which distinguishes them. If one factor was varied in addition to sessions,
//! each line has a color. In overlays of several targets, block sizes or other factors, those
//! choose the color, and UPDATE_PCT the dash. The marker repeats the information of the dash, or of
//! the color.

use super::super::charts::{Color, Marker};
use super::super::distinct;
use petal_judge::petals::PetalLine;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct LineStyle {
    pub(super) color: Color,
    /// Dash in SVG notation; empty for a whole line.
    pub(super) dash: &'static str,
    pub(super) marker: Marker,
}

const DASHES: [&str; 5] = ["", "8 4", "2 4", "11 4 2 4", "5 2 5 6"];
const UPDATE_PCT: &str = "update_pct";

pub(super) fn looks(lines: &[PetalLine]) -> Vec<LineStyle> {
    let varied = varied(lines);
    let is_overlay = varied.len() > 1;
    let dashed: Vec<&str> = if is_overlay {
        let by_dash = |key: &&str| *key == UPDATE_PCT;
        let found: Vec<&str> = varied.iter().copied().filter(by_dash).collect();
        if found.is_empty() { varied[1..].to_vec() } else { found }
    } else {
        Vec::new()
    };
    let coloured: Vec<&str> = varied.iter().copied().filter(|key| !dashed.contains(key)).collect();
    let (mut colors, mut dashes) = (Vec::new(), Vec::new());
    lines
        .iter()
        .enumerate()
        .map(|(position, line)| {
            // Lines without a distinguishing factor take colors in their order.
            let color = if varied.is_empty() {
                position
            } else {
                number(&mut colors, values(line, &coloured))
            };
            let dash = number(&mut dashes, values(line, &dashed));
            LineStyle {
                color: Color::Series(color),
                dash: DASHES[dash % DASHES.len()],
                marker: Marker::of(if is_overlay { dash } else { color }),
            }
        })
        .collect()
}

/// The factors whose values differ between lines, in their order.
fn varied(lines: &[PetalLine]) -> Vec<&str> {
    let all = lines.iter().flat_map(|line| &line.factors);
    let mut keys = distinct(all.map(|(key, _)| key.as_str()));
    keys.retain(|key| lines.iter().any(|line| value(line, key) != value(&lines[0], key)));
    keys
}

fn value<'a>(line: &'a PetalLine, key: &str) -> Option<&'a str> {
    line.factors.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
}

fn values<'a>(line: &'a PetalLine, keys: &[&str]) -> Vec<Option<&'a str>> {
    keys.iter().map(|key| value(line, key)).collect()
}

/// The position of a value among those seen, in the order in which they came.
fn number<T: PartialEq>(seen: &mut Vec<T>, value: T) -> usize {
    seen.iter().position(|old| *old == value).unwrap_or_else(|| {
        seen.push(value);
        seen.len() - 1
    })
}
