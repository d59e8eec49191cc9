//! Pressure stall information: /proc/pressure, as the kernel's Documentation/accounting/psi.rst
//! explains it. Kernels without it, or with it turned off, have no such files.

use super::figures::Counts;

/// `total` of the two lines `some avg10=.. total=N` and `full ..`: microseconds since the start.
fn totals(text: Option<String>) -> (Option<u64>, Option<u64>) {
    let of = |word: &str| -> Option<u64> {
        let line = text.as_deref()?.lines().find_map(|line| line.strip_prefix(word))?;
        line.split(" total=").nth(1)?.trim().parse().ok()
    };
    (of("some"), of("full"))
}

pub(super) fn counts(read: impl Fn(&str) -> Option<String>, into: &mut Counts) {
    (into.cpu_some_us, into.cpu_full_us) = totals(read("pressure/cpu"));
    (into.io_some_us, into.io_full_us) = totals(read("pressure/io"));
    (into.memory_some_us, into.memory_full_us) = totals(read("pressure/memory"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn totals_are_read_and_unknown_on_a_kernel_without_them() {
        let io = "some avg10=38.65 avg60=34.15 avg300=11.91 total=50017439\n\
                  full avg10=37.91 avg60=33.15 avg300=11.43 total=47665739\n";
        let read = |name: &str| match name {
            "pressure/io" => Some(io.to_owned()),
            // Older kernels have no such line for processors.
            "pressure/cpu" => Some("some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n".to_owned()),
            _ => None,
        };
        let mut counted = Counts::default();
        counts(read, &mut counted);
        assert_eq!((counted.io_some_us, counted.io_full_us), (Some(50017439), Some(47665739)));
        assert_eq!((counted.cpu_some_us, counted.cpu_full_us), (Some(7), None));
        assert_eq!(counted.memory_some_us, None);
    }

    proptest! {
        #[test]
        fn no_text_upsets_the_reader(text in "(some|full| total=|[0-9]{1,22}|\\n|\\PC){0,12}") {
            counts(|_| Some(text.clone()), &mut Counts::default());
        }
    }
}
