//! Dates as the reports print them, for comparison: `23-Apr-14 18:30:05`, `15-Feb-23 00:00`. Month
//! names in an unknown language give no date, and nothing is concluded from them.

use time::macros::format_description;
use time::{Date, Month, PrimitiveDateTime, Time};

/// Formats a time as `2025-06-02T10:00:00`, in the report's own time zone.
pub fn iso(time: PrimitiveDateTime) -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]");
    time.format(format).unwrap_or_default()
}

pub fn parse(text: &str) -> Option<PrimitiveDateTime> {
    let (date, clock) = text.trim().rsplit_once(' ')?;
    // `16-2月 -13`: months are padded to the longest.
    let date: String = date.chars().filter(|c| !c.is_whitespace()).collect();
    let mut date = date.split('-');
    let (day, month, year) = (date.next()?, date.next()?, date.next()?);
    let month = month_of(month)?;
    let year: i32 = year.parse().ok().filter(|year| (0..100).contains(year) || *year > 1990)?;
    // Oracle 8i is from 1998.
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

/// Names of months by their beginnings, as databases shorten them: English, French, German,
/// Spanish, Italian, Portuguese, Dutch, the Scandinavian languages, Polish, Czech, Turkish,
/// Russian. Names that two languages use for different months are left out.
const MONTHS: [&str; 12] = [
    "jan janv ene gen sty led oca янв",
    "feb févr fev fév lut úno şub фев",
    "mar mars mär mrz mrt bře мар",
    "apr avr abr kwi dub nis апр",
    "may mai mag maj mei kvě май мая",
    "jun juin giu cze čvn haz июн",
    "jul juil lug čvc tem июл",
    "aug août aou ago sie srp ağu авг",
    "sep sept set wrz zář eyl сен сент",
    "oct okt ott out paź říj eki окт",
    "nov lis kas ноя",
    "dec déc dic dez des gru pro ara дек",
];

fn month_of(name: &str) -> Option<Month> {
    let name = name.trim_end_matches('.').to_lowercase();
    let numbered = name.strip_suffix(['月', '월']).and_then(|number| number.parse::<usize>().ok());
    let is_named = |names: &str| names.split(' ').any(|known| known == name);
    let number = numbered.or_else(|| Some(MONTHS.iter().position(|names| is_named(names))? + 1))?;
    Month::try_from(u8::try_from(number).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_of_other_languages_are_dates() {
        let march = parse("16-Mar-13 10:00:00");
        for text in [
            "16-3月 -13 10:00:00",
            "16-3월-13 10:00:00",
            "16-MARS-13 10:00:00",
            "16-MRZ-13 10:00:00",
            "16-Mär-13 10:00:00",
            "16-MRT-13 10:00:00",
        ] {
            assert_eq!(parse(text), march, "{text}");
        }
        let months =
            |text: &str| parse(&format!("01-{text}-13 10:00")).map(|time| u8::from(time.month()));
        assert_eq!(months("12月"), Some(12));
        assert_eq!(["FÉVR.", "AOÛT", "DÉC."].map(months), [Some(2), Some(8), Some(12)]);
        assert_eq!(["Ene", "Abr", "Dic"].map(months), [Some(1), Some(4), Some(12)]);
        assert_eq!(["Gen", "Giu", "Ott"].map(months), [Some(1), Some(6), Some(10)]);
        // Each name means one month.
        let mut names: Vec<&str> = MONTHS.iter().flat_map(|names| names.split(' ')).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn dates_compare() {
        let of = |text| parse(text).unwrap();
        assert!(of("23-Apr-14 16:33") < of("23-Apr-14 18:30:05"));
        assert!(of("31-Dec-99 23:59:59") < of("01-JAN-00 00:00:00"));
        for text in [
            "",
            "23-Xyz-14 18:30:05",
            "16-13月-13 10:00",
            "16-月-13 10:00",
            "32-Jan-14 10:00",
            "23-Apr-14",
            "1-2-3 4:5",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
