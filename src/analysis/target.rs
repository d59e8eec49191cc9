//! Judges what a target states about itself, before a test is run on it.

use super::host::{Check, Verdict};
use crate::stats::target::{RowsFound, Target, TargetDetails};

/// What about the target would spoil a test, or must be known beside its figures.
pub fn check(target: &Target, details: &TargetDetails) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Some(direct_io) = &details.direct_io {
        let reason = direct_io.reason.clone().unwrap_or_default();
        let (verdict, value) = match (direct_io.used, direct_io.asked) {
            (true, _) => (Verdict::Good, "past the page cache".to_owned()),
            (false, true) => (Verdict::Warn, format!("not possible: {reason}")),
            (false, false) => (Verdict::Note, "off, as asked".to_owned()),
        };
        checks.push(Check {
            name: "direct I/O".to_owned(),
            value,
            verdict,
            why: "reads through the page cache are served from memory, not from the device"
                .to_owned(),
            advice: "df -T .   # put the data on ext4, xfs or another with O_DIRECT, or load \
                     several times the memory"
                .to_owned(),
        });
    }
    if let Some(durability) = &details.durability {
        checks.push(Check {
            name: "durability".to_owned(),
            value: durability.setting.clone(),
            verdict: if durability.durable { Verdict::Good } else { Verdict::Warn },
            why: "a commit that is not flushed costs no device write".to_owned(),
            advice: format!(
                "petal run   # with that changed, or told beside every figure: {}",
                durability.setting
            ),
        });
    }
    if let Some(plan) = &details.plan {
        checks.push(Check {
            name: "plan of the SELECT".to_owned(),
            value: plan.text.clone(),
            verdict: if plan.as_meant { Verdict::Good } else { Verdict::Warn },
            why: "another plan than an index range visits other blocks than the method counts"
                .to_owned(),
            advice: "petal setup --replace".to_owned(),
        });
    }
    checks.push(compression(details));
    checks.push(Check {
        name: "database".to_owned(),
        value: format!(
            "{} {}, blocks of {} bytes",
            target.product, target.version, target.block_size
        ),
        verdict: Verdict::Good,
        why: String::new(),
        advice: String::new(),
    });
    checks
}

/// Whether the rows of one schema are all there; `found` is why nobody could tell, if so.
pub fn rows(schema: u32, found: Result<RowsFound, String>) -> Check {
    let (verdict, value) = match &found {
        Err(why) => (Verdict::Unknown, why.clone()),
        Ok(RowsFound { loaded, looked_for, found }) => {
            let of = match looked_for == loaded {
                true => format!("{looked_for} rows, each looked for by its key"),
                false => format!("{looked_for} of {loaded} rows, looked for all over the data"),
            };
            match found == looked_for {
                true => (Verdict::Good, format!("{of}: all there")),
                false => (Verdict::Warn, format!("{of}: {found} found")),
            }
        }
    };
    Check {
        name: format!("rows of schema {schema}"),
        value,
        verdict,
        why: "an operation that does not find its rows visits fewer blocks than it is counted for"
            .to_owned(),
        advice: "petal setup --replace".to_owned(),
    }
}

/// Constant filler measures compression on storage that compresses.
fn compression(details: &TargetDetails) -> Check {
    let (verdict, value) = match details.compression_ratio {
        None => (Verdict::Unknown, "-".to_owned()),
        Some(ratio) if ratio > 2.0 => {
            (Verdict::Note, format!("sampled blocks shrink {ratio:.1} times"))
        }
        Some(ratio) => (Verdict::Good, format!("sampled blocks shrink {ratio:.1} times")),
    };
    Check {
        name: "filler".to_owned(),
        value,
        verdict,
        why: "storage that compresses or deduplicates would be measured by what it leaves out"
            .to_owned(),
        advice: "petal setup --replace --obfuscate-columns TRUE".to_owned(),
    }
}
