//! Dates as the reports print them, for comparing: `23-Apr-14 18:30:05`, `15-Feb-23 00:00`. Months
//! of another language than English are not understood, and nothing is concluded from them.

use time::{Date, Month, PrimitiveDateTime, Time};

pub fn parse(text: &str) -> Option<PrimitiveDateTime> {
    let (date, clock) = text.trim().split_once(' ')?;
    let mut date = date.split('-');
    let (day, month, year) = (date.next()?, date.next()?, date.next()?);
    let is_month = |known: &Month| known.to_string()[..3].eq_ignore_ascii_case(month);
    let month = (1..=12).filter_map(|number| Month::try_from(number).ok()).find(is_month)?;
    let year: i32 = year.parse().ok().filter(|year| (0..100).contains(year) || *year > 1990)?;
    // Oracle 8i is of 1998.
    let year = match year {
        0..=89 => 2000 + year,
        90..=99 => 1900 + year,
        _ => year,
    };
    let mut clock = clock.trim().split(':').map(str::parse::<u8>);
    let mut next = || clock.next().transpose().ok().flatten();
    let (hour, minute) = (next()?, next()?);
    let time = Time::from_hms(hour, minute, next().unwrap_or(0)).ok()?;
    let date = Date::from_calendar_date(year, month, day.parse().ok()?).ok()?;
    Some(PrimitiveDateTime::new(date, time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_compare() {
        let of = |text| parse(text).unwrap();
        assert!(of("23-Apr-14 16:33") < of("23-Apr-14 18:30:05"));
        assert!(of("31-Dec-99 23:59:59") < of("01-JAN-00 00:00:00"));
        for text in ["", "23-Abr-14 18:30:05", "32-Jan-14 10:00", "23-Apr-14", "1-2-3 4:5"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
