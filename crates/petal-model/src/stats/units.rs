//! Sizes in words, for messages and reports: powers of 1024, three digits that matter.

const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];

/// `512 B`, `8.00 KiB`, `1.25 GiB`.
pub fn bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = UNITS[0];
    for larger in &UNITS[1..] {
        // 999.5 rounds to 1000, four digits.
        if value < 999.5 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    let digits = usize::from(value < 9.995) + usize::from(value < 99.95);
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn three_digits_and_the_largest_unit_that_keeps_them() {
        let shown: Vec<String> =
            [0, 1023, 1024, 8192, 10_235, 67_108_864, 1_047_527_424, 1 << 40, u64::MAX]
                .into_iter()
                .map(bytes)
                .collect();
        let expected = [
            "0 B",
            "1023 B",
            "1.00 KiB",
            "8.00 KiB",
            "10.0 KiB",
            "64.0 MiB",
            "999 MiB",
            "1.00 TiB",
            "16384 PiB",
        ];
        assert_eq!(shown, expected);
    }
}
