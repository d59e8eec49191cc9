//! The state of this host's clock: whether it is synchronised, and how far off it may be.
//!
//! petal asks the clock's keeper: chrony by `chronyc -c tracking` (its estimates, in seconds),
//! else systemd by `timedatectl`, which passes on only the kernel's yes or no. If a host runs
//! neither, the state is unknown, which does not mean that the clock is wrong.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Timeout for an answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(10);
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockState {
    /// The program that was asked.
    pub told_by: String,
    pub synchronised: bool,
    /// Largest distance from UTC by the keeper's own estimate, in seconds; null if it has none.
    pub error_s: Option<f64>,
}

impl ClockState {
    /// Asks chrony, else systemd, for the state of the clock. `None` if neither answers.
    pub fn ask() -> Option<Self> {
        let chrony = || chrony(&output_of("chronyc", &["-c", "tracking"])?);
        let systemd = || systemd(&output_of("timedatectl", &["show", "-p", "NTPSynchronized"])?);
        chrony().or_else(systemd)
    }
}

/// Fields by chronyc(1), `tracking`: 5 the offset that is left, 11 root delay, 12 root dispersion,
/// 14 the leap status. The clock is off by no more than the offset, the dispersion and half of the
/// delay together.
fn chrony(line: &str) -> Option<ClockState> {
    let fields: Vec<&str> = line.trim().split(',').collect();
    let seconds = |field: usize| -> Option<f64> {
        fields.get(field - 1)?.parse::<f64>().ok().filter(|seconds| seconds.is_finite())
    };
    let status = fields.get(13)?;
    let (offset, delay, dispersion) = (seconds(5)?, seconds(11)?, seconds(12)?);
    let synchronised = *status != "Not synchronised";
    let error_s = offset.abs() + dispersion.abs() + delay.abs() / 2.0;
    Some(ClockState {
        told_by: "chronyc tracking".to_owned(),
        synchronised,
        error_s: synchronised.then_some(error_s),
    })
}

/// `NTPSynchronized=yes` or `no`.
fn systemd(text: &str) -> Option<ClockState> {
    let answer = text.lines().find_map(|line| line.strip_prefix("NTPSynchronized="))?;
    let synchronised = match answer.trim() {
        "yes" => true,
        "no" => false,
        _ => return None,
    };
    Some(ClockState { told_by: "timedatectl".to_owned(), synchronised, error_s: None })
}

/// Returns a program's output; `None` if it is missing, fails, or takes too long.
fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let mut child = Command::new(program)
        .args(arguments)
        // Other programs must not see petal's environment.
        .env_clear()
        .env("PATH", PATH)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let began = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if began.elapsed() < ANSWER_LIMIT => thread::sleep(POLL),
            Ok(None) | Err(_) => {
                // It may have ended just now.
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
        }
    };
    let mut text = String::new();
    child.stdout.take()?.take(1 << 16).read_to_string(&mut text).ok()?;
    status.filter(|status| status.success()).map(|_| text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TRACKING: &str = "A9FEA97B,169.254.169.123,4,1700000000.123456789,-0.000012000,\
        0.000001000,0.000020000,-10.500,0.001,0.050,0.000400000,0.000300000,16.2,Normal\n";

    #[test]
    fn chrony_reports_the_largest_clock_error() {
        let state = chrony(TRACKING).unwrap();
        assert!(state.synchronised);
        assert!((state.error_s.unwrap() - 0.000512).abs() < 1e-9, "{state:?}");
        let lost = chrony(&TRACKING.replace("Normal", "Not synchronised")).unwrap();
        assert_eq!((lost.synchronised, lost.error_s), (false, None));
        assert_eq!(chrony("506 Cannot talk to daemon"), None);
    }

    #[test]
    fn systemd_answers_yes_or_no() {
        let read = |text: &str| systemd(text).map(|state| (state.synchronised, state.error_s));
        assert_eq!(read("NTPSynchronized=yes\n"), Some((true, None)));
        assert_eq!(read("NTPSynchronized=no\n"), Some((false, None)));
        assert_eq!(read("Failed to connect to bus"), None);
    }

    #[test]
    fn missing_and_failing_programs_give_no_output() {
        assert_eq!(output_of("no-such-program-is-here", &[]), None);
        assert_eq!(output_of("false", &[]), None);
        assert_eq!(output_of("echo", &["so"]).as_deref(), Some("so\n"));
    }

    proptest! {
        #[test]
        fn no_text_upsets_the_readers(text in "([0-9.-]{1,8}|,|Normal|NTPSynchronized=|\\n|\\PC){0,40}") {
            if let Some(state) = chrony(&text) {
                prop_assert!(state.error_s.is_none_or(f64::is_finite));
            }
            systemd(&text);
        }
    }
}
