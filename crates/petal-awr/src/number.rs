//! Numbers as the reports print them: `1,234`, `.5`, `176.5K`, `7.0E+08`, `420.51us`, `######`.
//! Exact if the text is exact; anything else is `None`, never 0.

use serde::Serialize;

/// Value of a cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Scalar {
    Whole(i64),
    Decimal(f64),
    Text(String),
}

impl Scalar {
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(value) => Some(*value as f64),
            Self::Decimal(value) => Some(*value),
            Self::Text(_) => None,
        }
    }
}

/// A number and the precision it was printed with.
#[derive(Debug, Clone, PartialEq)]
pub struct Printed {
    pub value: Scalar,
    /// Size of one unit of the last printed digit.
    pub step: f64,
}

impl Printed {
    pub fn number(&self) -> f64 {
        self.value.number().unwrap_or(f64::NAN)
    }

    /// Converts to another unit as a decimal number.
    pub fn scaled(self, factor: f64) -> Self {
        Self { value: Scalar::Decimal(self.number() * factor), step: self.step * factor }
    }

    fn times(self, factor: f64) -> Self {
        let value = match self.value {
            Scalar::Whole(value) if factor.fract() == 0.0 => {
                whole_or_decimal(value as f64 * factor)
            }
            _ => return self.scaled(factor),
        };
        Self { value, step: self.step * factor }
    }
}

const EXACT: f64 = 9_007_199_254_740_992.0;

fn whole_or_decimal(value: f64) -> Scalar {
    if value.fract() == 0.0 && value.abs() < EXACT {
        Scalar::Whole(value as i64)
    } else {
        Scalar::Decimal(value)
    }
}

/// Reads a count, rate or time: K, M, G, T and P multiply by powers of 1000.
pub fn count(text: &str) -> Option<Printed> {
    let (digits, power) = without_suffix(text);
    plain(digits, power * 3)
}

/// Reads bytes: `728M`, `9,508K` or `8K`, in units of 1024; a number without a suffix, such as
/// `4.53118`, is not scaled.
pub fn data(text: &str) -> Option<Printed> {
    let (digits, power) = without_suffix(text);
    let printed = plain(digits, 0)?;
    Some(if power > 0 { printed.times(1024f64.powi(power)) } else { printed })
}

/// Returns the text before K, M, G, T or P, and the power that the letter means.
fn without_suffix(text: &str) -> (&str, i32) {
    const SUFFIXES: [&[char]; 5] = [&['K', 'k'], &['M'], &['G'], &['T'], &['P']];
    let text = text.trim();
    let found = (1..).zip(SUFFIXES).find(|(_, letters)| text.ends_with(*letters));
    found.map_or((text, 0), |(power, _)| (&text[..text.len() - 1], power))
}

/// Reads an average in microseconds: `2.45ms`, `52.86 s`, `221.45ns`; a bare number is in
/// `unit_us`.
pub fn duration_us(text: &str, unit_us: Option<f64>) -> Option<Printed> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let us = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "ns" => 1e-3,
        "us" => 1.0,
        "ms" => 1e3,
        "s" | "sec" => 1e6,
        "m" | "min" => 60e6,
        "h" | "hr" => 3600e6,
        // A suffix of a bare number: `2.2K` ms.
        "k" | "" => return count(text).zip(unit_us).map(|(printed, unit)| printed.times(unit)),
        _ => return None,
    };
    // Shifts the decimal point, so that 268.69us stays 268.69.
    let printed = plain(digits.trim_end(), 0)?;
    Some(Printed {
        value: Scalar::Decimal(round_off(printed.number() * us)),
        step: printed.step * us,
    })
}

/// Removes the error in the last bit that multiplying by a power of ten adds.
fn round_off(value: f64) -> f64 {
    format!("{value:.12e}").parse().unwrap_or(value)
}

/// Reads digits with thousands separators, a fraction and an exponent, times ten to the power of
/// `shift`.
fn plain(text: &str, shift: i32) -> Option<Printed> {
    let (mantissa, exponent) = match text.find(['E', 'e']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (sign, unsigned) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (units, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if units.len() + fraction.len() == 0 || unsigned.len() > 40 || !is_digits(fraction) {
        return None;
    }
    let mut digits = String::with_capacity(unsigned.len() + 6);
    digits.push_str(sign);
    push_units(units, &mut digits)?;
    digits.push_str(fraction);
    let power = exponent.checked_add(shift)?.checked_sub(fraction.len() as i32)?;
    if !(-300..=300).contains(&power) {
        return None;
    }
    let step = 10f64.powi(power);
    if power == 0
        && let Ok(whole) = digits.parse()
    {
        return Some(Printed { value: Scalar::Whole(whole), step });
    }
    digits.push('e');
    digits.push_str(&power.to_string());
    let value: f64 = digits.parse().ok()?;
    let is_scaled = shift > 0 || exponent > 0;
    let value = if is_scaled { whole_or_decimal(value) } else { Scalar::Decimal(value) };
    Some(Printed { value, step })
}

/// Reads `1,234,567` as digits; commas that do not separate groups of three make it unreadable.
fn push_units(units: &str, digits: &mut String) -> Option<()> {
    let is_grouped = units.contains(',');
    for (at, group) in units.split(',').enumerate() {
        let fits = if at == 0 { (1..=3).contains(&group.len()) } else { group.len() == 3 };
        if is_grouped && !fits || !group.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        digits.push_str(group);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::figure::Figure;
    use super::*;
    use proptest::prelude::*;

    fn whole(text: &str) -> Option<i64> {
        match count(text)?.value {
            Scalar::Whole(value) => Some(value),
            _ => None,
        }
    }

    fn number(text: &str) -> Option<f64> {
        count(text).map(|printed| printed.number())
    }

    #[test]
    fn as_the_reports_print_them() {
        assert_eq!(whole("396,483,689,782,272"), Some(396_483_689_782_272));
        assert_eq!(whole("176.5K"), Some(176_500));
        assert_eq!(whole("2198.8K"), Some(2_198_800));
        assert_eq!(whole("1.234K"), Some(1_234));
        assert_eq!(whole("1.25E+02"), Some(125));
        assert_eq!(whole("7.0E+08"), Some(700_000_000));
        assert_eq!(number(".5"), Some(0.5));
        assert_eq!(number("-86.57"), Some(-86.57));
        assert_eq!(number("1.04522451E+09"), Some(1.04522451e9));
        assert_eq!(data("9,508K").unwrap().number(), 9_736_192.0);
        assert_eq!(data("2.6G").unwrap().number(), 2.6 * 1024.0 * 1024.0 * 1024.0);
    }

    #[test]
    fn a_text_that_is_no_number_is_unknown() {
        for text in [
            "",
            " ",
            "######",
            "N/A",
            "-",
            ".",
            "1,2",
            "12,3456",
            ",123",
            "1.2.3",
            "E5",
            "15.03 (mins)",
            "0x10",
            "inf",
            "nan",
            "1E999",
            "K",
        ] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn averages_have_their_unit() {
        let us = |text, unit| duration_us(text, unit).map(|printed| printed.number());
        assert_eq!(us("420.51us", None), Some(420.51));
        assert_eq!(us("2.45ms", None), Some(2450.0));
        assert_eq!(us("52.86 s", None), Some(52_860_000.0));
        assert_eq!(us("221.45ns", None), Some(0.22145));
        assert_eq!(us("9", Some(1e3)), Some(9000.0));
        assert_eq!(us("9", None), None);
        assert_eq!(us("9 parsecs", None), None);
    }

    #[test]
    fn fewer_digits_are_less_certain() {
        let of = |text| Figure::read(text, &"".into(), count).unwrap().uncertainty();
        assert!(of("0.4") > of("0.42") && of("4,568") < of("9") && of("0") == f64::INFINITY);
        assert_eq!(of("176.5K"), 50.0 / 176_500.0);
    }

    proptest! {
        #[test]
        fn thousands_apart_are_the_same_number(value in 0i64..=i64::MAX) {
            let digits = value.to_string();
            let mut shown = String::new();
            for (at, digit) in digits.chars().enumerate() {
                if at > 0 && (digits.len() - at) % 3 == 0 {
                    shown.push(',');
                }
                shown.push(digit);
            }
            prop_assert_eq!(whole(&shown), Some(value));
        }

        #[test]
        fn any_text_is_a_number_or_none(text in "\\PC{0,24}") {
            for printed in [count(&text), data(&text), duration_us(&text, Some(1e3))] {
                prop_assert!(printed.is_none_or(|printed| printed.number().is_finite()));
            }
        }
    }
}
