//! Shares: the sessions of a run that each of several driver hosts takes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::plan::SESSIONS_MAX;
use super::seat::Seat;

/// A host's share of a run, such as the second of four.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Number of the share, from 1.
    pub number: u32,
    pub of: u32,
}

impl Share {
    /// The share of a run that one host drives alone.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// This share's sessions of the whole plan: K, K+N, K+2N and so on. They keep their numbers, so
    /// each does the same work as on a single host.
    pub fn seats(self, plan: &[Seat]) -> Vec<Seat> {
        plan.iter().filter(|seat| self.has(seat.session)).copied().collect()
    }

    /// True if the session belongs to this share.
    pub fn has(self, session: u32) -> bool {
        Self::of_session(session, self.of) == self.number
    }

    /// The number of the share, of `of` shares, that has a session.
    pub fn of_session(session: u32, of: u32) -> u32 {
        (session - 1) % of.max(1) + 1
    }

    /// True for the first share, which settles the database, takes its counters, and calls the
    /// scripts.
    pub fn is_first(self) -> bool {
        self.number == 1
    }

    pub fn is_whole(self) -> bool {
        self.of == 1
    }
}

impl Default for Share {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u32>().ok().filter(|_| is_plain)
        };
        text.split_once('/')
            .and_then(|(of_text, all)| Some((number(of_text)?, number(all)?)))
            .filter(|&(number, of)| (1..=of).contains(&number) && of <= SESSIONS_MAX)
            .map(|(number, of)| Self { number, of })
            .ok_or_else(|| format!("must be K/N, with K from 1 to N and N at most {SESSIONS_MAX}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::seats;
    use petal_settings::Settings;

    #[test]
    fn shares_part_the_plan_among_them() {
        let plan = seats(&Settings { threads_per_schema: 5, ..Settings::default() }, 3, 2);
        let mut all: Vec<Seat> =
            (1..=4).flat_map(|number| Share { number, of: 4 }.seats(&plan)).collect();
        let second = Share { number: 2, of: 4 }.seats(&plan);
        let sessions = |seats: &[Seat]| seats.iter().map(|seat| seat.session).collect::<Vec<_>>();
        assert_eq!(sessions(&second), [2, 6, 10, 14]);
        all.sort_by_key(|seat| seat.session);
        assert_eq!(all, plan);
        assert_eq!(Share::WHOLE.seats(&plan), plan);
    }

    #[test]
    fn a_share_is_written_k_of_n() {
        assert_eq!("2/4".parse(), Ok(Share { number: 2, of: 4 }));
        assert_eq!(Share { number: 2, of: 4 }.to_string(), "2/4");
        for text in ["", "2", "0/4", "5/4", "+1/4", "1/", "/4", "a/b", "1/0", "1/99999"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }
}
