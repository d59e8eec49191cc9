//! Error rates and power of each rule of judgement, measured on simulated runs. Prints the lists of
//! docs/judgement.md, and fails if a rule does not keep its stated share.
//!
//! `cargo bench --bench judgement`: 2,000 trials of each claim, with fixed seeds; `-- 200` makes 200. A
//! claim that is past its stated share has ten times as many, so that chance is not taken for the
//! rule's own share.

#![allow(clippy::print_stdout)]

use std::process::ExitCode;

use petal_judge::power::{CLAIMS, Stated, errors_of_the_peak, is_a_pool, open_loop_words};

const TRIALS: u64 = 2_000;

fn main() -> ExitCode {
    // Cargo itself passes `--bench`.
    let requested = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let all_trials = requested.unwrap_or(TRIALS);
    let (mut broken, mut rule) = (0, "");
    for (seed, claim) in (1..).zip(&CLAIMS) {
        let (mut trials, mut count) = (all_trials, claim.count(all_trials, seed));
        if claim.is_past(count, trials) {
            trials *= 10;
            count = claim.count(trials, seed);
        }
        let stated = match claim.stated {
            Stated::AtMost(share) => format!("at most {:.0} %", share * 100.0),
            Stated::AtLeast(share) => format!("at least {:.0} %", share * 100.0),
        };
        let measured = 100.0 * count as f64 / trials as f64;
        let is_kept = claim.is_kept(count, trials);
        let mark = if is_kept { "" } else { " BROKEN" };
        if claim.rule != rule {
            rule = claim.rule;
            println!("\n{rule}:\n");
        }
        println!("- {} in {stated}, measured {measured:.1} %{mark}", claim.runs);
        broken += u32::from(!is_kept);
    }
    let (of_peak, of_plateau) = errors_of_the_peak(all_trials, 1);
    let percent = |share: f64| format!("{:+.1} %", share * 100.0);
    println!(
        "\nmean error of the peak {}, of the plateau {}",
        percent(of_peak),
        percent(of_plateau)
    );
    let is_a_pool = is_a_pool();
    println!("open loop: {}{}", open_loop_words(), if is_a_pool { "" } else { " BROKEN" });
    broken += u32::from(!is_a_pool);
    ExitCode::from(u8::from(broken > 0))
}
