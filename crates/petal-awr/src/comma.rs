//! Decimal comma of a report: in other countries' notation `520.207` is a count. All numbers of the
//! text decide, since a pasted section has no elapsed time.

/// Returns a number with a decimal comma, if more numbers of a text prove one than a decimal point.
pub fn decimal(text: &str) -> Option<&str> {
    let mut first = None;
    let (mut commas, mut points) = (0, 0);
    let is_between = |c: char| c.is_whitespace() || matches!(c, '<' | '>' | '|');
    for word in text.split(is_between).filter(|word| word.contains([',', '.'])) {
        if proves(word, '.', ',') {
            commas += 1;
            first = first.or(Some(word));
        } else if proves(word, ',', '.') {
            points += 1;
        }
    }
    first.filter(|_| commas > points)
}

/// True for a number that has this sign before its fraction in any reading: it has the other one
/// between thousands too, or no three digits behind it; or else two signs between thousands.
fn proves(word: &str, thousands: char, sign: char) -> bool {
    let unit = |c: char| c.is_ascii_alphabetic() || c == '%';
    let digits = word.trim_start_matches(['-', '+']).trim_end_matches(unit);
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let (units, fraction) = match digits.split_once(sign) {
        Some((units, fraction)) if !fraction.is_empty() => (units, Some(fraction)),
        Some(_) => return false,
        None => (digits, None),
    };
    let mut groups = units.split(thousands);
    let begin = groups.next().unwrap_or_default();
    let more = groups.clone().count();
    let is_grouped = groups.all(|group| group.len() == 3 && is_number(group));
    let begins = is_number(begin) && (more == 0 || (1..=3).contains(&begin.len()));
    let is_whole = is_grouped && begins && fraction.is_none_or(is_number);
    is_whole && fraction.map_or(more > 1, |it| more > 0 || it.len() != 3 || begin.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_decide() {
        assert_eq!(decimal("a 520.207 4.568 9 2,8 71,3"), Some("2,8"));
        assert_eq!(decimal("<td>1.418.459</td>"), Some("1.418.459"));
        assert_eq!(decimal("| 520.207,00 | ,4% | 110,5us |"), Some("520.207,00"));
        // A list in SQL is one against many.
        assert_eq!(decimal("order by 1,2 ... 520,207 4,568.3 .4 71.3"), None);
        for text in ["1,418,459 1,2", "520,207 4,568", "520.207 4.568", "19.3.0.0.0 1, 2,", "a,b ,"]
        {
            assert_eq!(decimal(text), None, "{text}");
        }
    }
}
