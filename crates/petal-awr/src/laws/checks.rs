//! Collection of a report's checks, with the names that a note needs.

use super::super::figure::Figure;
use super::super::law::{Interval, LawCheck, Relation};

/// A figure that a law may make unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubtful {
    /// A field of the report, by its address: the report does not move while it is checked.
    Field(usize),
    /// Position of a statistic, and its column.
    Statistic(usize, usize),
    /// Position of a histogram, for its shares.
    Histogram(usize),
    /// Position of a histogram, for its headings: that the shares add up says nothing about them.
    Ranges(usize),
}

impl Doubtful {
    pub fn field(figure: &Option<Figure>) -> Self {
        Self::Field(std::ptr::from_ref(figure).addr())
    }
}

/// A figure of a check.
#[derive(Clone)]
pub struct Part {
    pub figure: Doubtful,
    pub name: &'static str,
    pub value: Interval,
}

impl Part {
    /// Returns a printed figure as a part of checks; `None` for computed and unknown ones.
    pub fn of(name: &'static str, figure: &Option<Figure>) -> Option<Self> {
        Some(Self { figure: Doubtful::field(figure), name, value: interval(figure.as_ref()?)? })
    }

    /// Returns a printed count as a part, exact if all of its digits are printed.
    pub fn count(name: &'static str, figure: &Option<Figure>) -> Option<Self> {
        let part = Self::of(name, figure)?;
        Some(Self { value: counted(figure.as_ref()?)?, ..part })
    }
}

/// Returns the range of a printed figure.
pub fn interval(figure: &Figure) -> Option<Interval> {
    figure.as_printed.as_ref()?;
    Some(Interval::printed(figure.number()?, figure.step))
}

/// Returns the range of a printed count.
pub fn counted(figure: &Figure) -> Option<Interval> {
    let is_whole = figure.step == 1.0;
    let range = interval(figure)?;
    Some(if is_whole { Interval::exact(range.middle()) } else { range })
}

#[derive(Default)]
pub struct Checks<'r> {
    /// Law whose checks are being added.
    pub law: &'static str,
    pub all: Vec<LawCheck<Doubtful>>,
    /// Section, row and the names of the figures of each check.
    places: Vec<(&'r str, &'r str, Vec<&'static str>)>,
}

impl<'r> Checks<'r> {
    fn push(
        &mut self,
        (section, row): (&'r str, &'r str),
        parts: Vec<(Part, f64)>,
        relation: Relation,
        [left, right]: [(&'static str, Interval); 2],
    ) {
        let names = parts.iter().map(|(part, _)| part.name).collect();
        let weight = |weight: f64| if weight == 0.0 { f64::MIN_POSITIVE } else { weight };
        let figures = parts.into_iter().map(|(part, own)| (part.figure, weight(own))).collect();
        self.all.push(LawCheck { law: self.law, figures, left, right, relation });
        self.places.push((section, row, names));
    }

    /// Adds a check whose sides are products of its figures.
    pub fn product(
        &mut self,
        place: (&'r str, &'r str),
        parts: impl IntoIterator<Item = Part>,
        sides: [(&'static str, Interval); 2],
    ) {
        self.related(place, parts, Relation::Equal, sides);
    }

    pub fn related(
        &mut self,
        place: (&'r str, &'r str),
        parts: impl IntoIterator<Item = Part>,
        relation: Relation,
        sides: [(&'static str, Interval); 2],
    ) {
        let size = sides.iter().map(|side| side.1.middle().abs()).fold(0.0, f64::max);
        let parts = parts.into_iter().map(|part| (part, size)).collect();
        self.push(place, parts, relation, sides);
    }

    /// Adds a check that parts add up to a whole.
    pub fn sum(
        &mut self,
        place: (&'r str, &'r str),
        parts: Vec<Part>,
        whole: Part,
        [left, right]: [&'static str; 2],
    ) {
        let sum: Interval = parts.iter().map(|part| part.value).sum();
        let sides = [(left, sum), (right, whole.value)];
        let own = |part: Part| {
            let weight = part.value.middle();
            (part, weight)
        };
        let all = parts.into_iter().chain([whole]).map(own).collect();
        self.push(place, all, Relation::Equal, sides);
    }

    /// Says which figures a broken check costs, and names both sides.
    pub fn note(&self, at: usize, figures: &[Doubtful]) -> String {
        let (Some(check), Some((section, row, names))) = (self.all.get(at), self.places.get(at))
        else {
            return String::new();
        };
        let named = names.iter().copied().zip(check.figures.iter().map(|(figure, _)| figure));
        let mut lost: Vec<&str> =
            named.filter(|(_, figure)| figures.contains(figure)).map(|(name, _)| name).collect();
        lost.dedup();
        let [left, right] = [check.left, check.right]
            .map(|(name, range)| format!("{name} {}", significant(range.middle())));
        let how = if check.relation == Relation::Equal { "is not" } else { "is more than" };
        let row = if row.is_empty() { String::new() } else { format!(": {row}") };
        format!("{section}{row}: {} unknown: {left} {how} {right}", lost.join(", "))
    }
}

/// Formats a number with as many digits as a note needs.
fn significant(value: f64) -> String {
    let digits = (4.0 - value.abs().log10().floor()).clamp(0.0, 6.0);
    let decimals = if digits.is_finite() { digits as usize } else { 0 };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}
