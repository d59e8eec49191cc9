//! Places the words next to points: at the first place about their point that covers no other word
//! and no marker. A word of little weight without such a place is left out, because the value is in
//! the chart's table as well.

use super::svg::LETTER;

/// Weight of a word: a required word may cover others; an optional one gives way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    Must,
    May,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Patch {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Patch {
    /// Builds a box around a point with these distances to each side.
    fn about(x: f64, y: f64, across: f64, up: f64) -> Self {
        Self { left: x - across, top: y - up, right: x + across, bottom: y + up }
    }

    fn overlap(&self, other: &Self) -> f64 {
        let width = self.right.min(other.right) - self.left.max(other.left);
        let height = self.bottom.min(other.bottom) - self.top.max(other.top);
        if width > 0.0 && height > 0.0 { width * height } else { 0.0 }
    }
}

/// The places of a chart that words, markers and strokes occupy, in pixels.
#[derive(Debug, Default)]
pub struct Labels {
    room: Option<Patch>,
    words: Vec<Patch>,
    markers: Vec<Patch>,
    strokes: Vec<Patch>,
}

/// Distance of two lines of a word, in parts of its size.
pub const LINE: f64 = 1.22;

/// Cost of covering, for each square pixel.
const COST_WORD: f64 = 100.0;
const COST_MARKER: f64 = 20.0;
const COST_STROKE: f64 = 1.2;
/// Cost of each pixel away from the point: a near word clearly belongs to its point.
const COST_GAP: f64 = 1.5;
/// A word that may be left out is, from this cost on.
const COST_MAX: f64 = 90.0;

impl Labels {
    /// Words stay within these bounds: left, top, right, bottom.
    pub fn within(left: f64, top: f64, right: f64, bottom: f64) -> Self {
        Self { room: Some(Patch { left, top, right, bottom }), ..Self::default() }
    }

    /// A marker's place, which words should leave free.
    pub fn marker(&mut self, x: f64, y: f64, radius: f64) {
        self.markers.push(Patch::about(x, y, radius, radius));
    }

    /// A line, which words had better leave free.
    pub fn stroke(&mut self, from: (f64, f64), to: (f64, f64)) {
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        let pieces = (length / 5.0).ceil().clamp(1.0, 400.0) as usize;
        self.strokes.extend((0..=pieces).map(|piece| {
            let share = piece as f64 / pieces as f64;
            let x = from.0 + (to.0 - from.0) * share;
            let y = from.1 + (to.1 - from.1) * share;
            Patch::about(x, y, 2.5, 2.5)
        }));
    }

    /// The left edge and the middle height of the first line of a word of `size` pixels at a
    /// point; None if it was left out.
    pub fn place(
        &mut self,
        (x, y): (f64, f64),
        text: &str,
        size: f64,
        weight: Weight,
    ) -> Option<(f64, f64)> {
        let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        // Words that must be seen are bold.
        let letter = if weight == Weight::Must { LETTER * 1.2 } else { LETTER };
        let width = longest as f64 * size * letter;
        let height = text.lines().count() as f64 * size * LINE - size * (LINE - 0.95);
        let (cost, best) = places(x, y, width, height)
            .map(|(gap, patch)| (self.cost(&patch) + gap * COST_GAP, patch))
            .min_by(|a, b| a.0.total_cmp(&b.0))?;
        if weight == Weight::May && cost > COST_MAX {
            return None;
        }
        self.words.push(best);
        Some((best.left, best.top + size * 0.475))
    }

    fn cost(&self, patch: &Patch) -> f64 {
        let area = (patch.right - patch.left) * (patch.bottom - patch.top);
        let outside = self.room.map_or(0.0, |room| area - patch.overlap(&room));
        let of = |taken: &[Patch]| taken.iter().map(|other| patch.overlap(other)).sum::<f64>();
        (outside + of(&self.words)) * COST_WORD
            + of(&self.markers) * COST_MARKER
            + of(&self.strokes) * COST_STROKE
    }
}

/// Places for a label around the point, the usual ones first, then further away.
fn places(x: f64, y: f64, width: f64, height: f64) -> impl Iterator<Item = (f64, Patch)> {
    let about = [
        (0.0, -1.0),
        (1.0, 0.0),
        (0.0, 1.0),
        (-1.0, 0.0),
        (0.8, -0.8),
        (-0.8, -0.8),
        (0.8, 0.8),
        (-0.8, 0.8),
    ];
    [8.0, 13.0, 19.0, 28.0].into_iter().flat_map(move |gap| {
        about.into_iter().map(move |(right, down)| {
            let middle = x + right * (gap + width / 2.0);
            let level = y + down * (gap + height / 2.0);
            (gap, Patch::about(middle, level, width / 2.0, height / 2.0))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_that_may_be_left_out_cover_no_other_word(
            points in prop::collection::vec((0.0..400.0_f64, 0.0..300.0_f64), 1..70),
        ) {
            let mut labels = Labels::within(0.0, 0.0, 400.0, 300.0);
            points.iter().for_each(|&(x, y)| labels.marker(x, y, 4.0));
            for &point in &points {
                let placed = labels.place(point, "64", 11.0, Weight::May);
                prop_assert!(placed.is_none_or(|(left, _)| (-1.0..400.0).contains(&left)));
            }
            for (at, word) in labels.words.iter().enumerate() {
                let covered: f64 = labels.words[..at].iter().map(|other| word.overlap(other)).sum();
                prop_assert!(covered < 1.0, "{covered}");
            }
        }
    }

    #[test]
    fn a_word_that_must_be_seen_is_seen_in_a_crowd() {
        let mut labels = Labels::within(0.0, 0.0, 30.0, 20.0);
        for number in 0..40 {
            labels.marker(f64::from(number % 8) * 4.0, f64::from(number / 8) * 4.0, 4.0);
        }
        assert_eq!(labels.place((15.0, 10.0), "32", 11.0, Weight::May), None);
        assert!(labels.place((15.0, 10.0), "32 peak", 11.0, Weight::Must).is_some());
    }
}
