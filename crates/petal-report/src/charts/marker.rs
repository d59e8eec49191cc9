//! The marks of points: each series has its own, so that color is never alone.

/// Drawn about a point, all of about the same weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    Down,
    Hexagon,
}

const ALL: [Marker; 6] = [
    Marker::Circle,
    Marker::Square,
    Marker::Triangle,
    Marker::Diamond,
    Marker::Down,
    Marker::Hexagon,
];

impl Marker {
    /// The marker of a series, by its number; markers repeat.
    pub fn of(number: usize) -> Self {
        ALL[number % ALL.len()]
    }

    /// Corners about (0, 0), in parts of the radius; none of a circle.
    pub(super) fn corners(self) -> &'static [(f64, f64)] {
        match self {
            Self::Circle => &[],
            Self::Square => &[(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)],
            Self::Triangle => &[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
            Self::Diamond => &[(0.0, -1.3), (1.15, 0.0), (0.0, 1.3), (-1.15, 0.0)],
            Self::Down => &[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
            Self::Hexagon => &[
                (1.1, 0.0),
                (0.55, 0.95),
                (-0.55, 0.95),
                (-1.1, 0.0),
                (-0.55, -0.95),
                (0.55, -0.95),
            ],
        }
    }
}
