//! Whole numbers among the arguments: read, or refused by their rule.

/// Reads a whole number from `min` to `max`, for clap's `value_parser`.
pub fn whole<T>(min: u64, max: u64) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: TryFrom<u64>,
{
    let rule = match max {
        u64::MAX => format!("must be a whole number from {min}"),
        max => format!("must be a whole number from {min} to {max}"),
    };
    move |text| {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| is_plain && (min..=max).contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| rule.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_such_number_is_refused_by_the_rule() {
        let schemas = whole::<u32>(1, u64::MAX);
        assert_eq!(schemas("12"), Ok(12));
        for text in ["", "0", "x", "4.5", "-1", "+1", "99999999999"] {
            assert_eq!(schemas(text), Err("must be a whole number from 1".to_owned()), "{text}");
        }
        let percent = whole::<u8>(1, 99);
        assert_eq!((percent("99"), percent("100").is_err()), (Ok(99), true));
        assert_eq!(percent("100").unwrap_err(), "must be a whole number from 1 to 99");
    }
}
