//! A limit for a difference, as people state it for a script: `piops < -5%`, `read_us > 10%`. Its
//! grammar lives here; holding it against a comparison does not.

use std::fmt;
use std::str::FromStr;

/// A change that is not to be: of a metric, past a share of the baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeLimit {
    text: String,
    pub metric: String,
    pub side: ForbiddenSide,
    /// -0.05 is five percent less than the baseline.
    pub share: f64,
}

/// Side of the limit on which changes are forbidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForbiddenSide {
    Below,
    Above,
}

impl fmt::Display for ChangeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for ChangeLimit {
    /// Why a text is no limit.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |why: &str| {
            format!(
                "{text:?} {why}; write METRIC < N% or METRIC > N%, such as 'piops < -5%' or \
                 'read_us > 10%'"
            )
        };
        let at = text.find(['<', '>']).ok_or_else(|| wrong("holds neither < nor >"))?;
        let (metric, rest) = text.split_at(at);
        let side = if rest.starts_with('<') { ForbiddenSide::Below } else { ForbiddenSide::Above };
        let metric = metric.trim().to_ascii_lowercase();
        if metric.is_empty() {
            return Err(wrong("names no metric"));
        }
        let percent = rest[1..]
            .trim()
            .strip_suffix('%')
            .ok_or_else(|| wrong("does not end in %: a limit is a share of the baseline"))?;
        let percent: f64 = percent.trim().parse().map_err(|_| wrong("has no number before %"))?;
        if !percent.is_finite() || percent <= -100.0 {
            return Err(wrong("is impossible: nothing falls by 100 % or more"));
        }
        Ok(Self { text: text.trim().to_owned(), metric, side, share: percent / 100.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write() {
        let limit: ChangeLimit = " piops < -5% ".parse().unwrap();
        assert_eq!((limit.metric.as_str(), limit.side), ("piops", ForbiddenSide::Below));
        assert_eq!((limit.share, limit.to_string()), (-0.05, "piops < -5%".to_owned()));
        let limit: ChangeLimit = "READ_US>+12.5 %".parse().unwrap();
        assert_eq!(
            (limit.metric.as_str(), limit.side, limit.share),
            ("read_us", ForbiddenSide::Above, 0.125)
        );
    }

    #[test]
    fn what_is_none_says_what_would_be() {
        let why = |text: &str| text.parse::<ChangeLimit>().unwrap_err().to_string();
        insta::assert_snapshot!(why("piops -5%"), @r#""piops -5%" holds neither < nor >; write METRIC < N% or METRIC > N%, such as 'piops < -5%' or 'read_us > 10%'"#);
        assert!(why("< -5%").contains("names no metric"));
        assert!(why("piops < -5").contains("does not end in %"));
        assert!(why("piops < five%").contains("no number"));
        assert!(why("piops < -100%").contains("nothing falls"));
        assert!(why("piops < nan%").contains("nothing falls"));
    }
}
