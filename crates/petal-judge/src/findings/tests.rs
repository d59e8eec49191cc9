//! Findings that a change of the fixture adds.

mod advice;
mod hosts;
mod limits;
mod others;
mod reads;
mod trust;
mod writes;

use super::judge;
use petal_record::os::HostSeen;
use petal_record::{Run, fixture};

pub(super) fn ids(run: &Run) -> Vec<String> {
    judge(run).into_iter().map(|finding| finding.id).collect()
}

/// The fixture changed by `change` must differ from it by exactly these findings.
pub(super) fn gains(expected: &[&str], change: impl Fn(&mut Run)) -> Run {
    let plain = ids(&fixture::mixed_run());
    let mut run = fixture::mixed_run();
    change(&mut run);
    let gained: Vec<String> = ids(&run).into_iter().filter(|id| !plain.contains(id)).collect();
    assert_eq!(gained, expected);
    run
}

pub(super) fn message(run: &Run, id: &str) -> String {
    judge(run).into_iter().find(|finding| finding.id == id).unwrap().message
}

pub(super) fn seen(run: &mut Run) -> &mut HostSeen {
    run.details.os.as_mut().unwrap()
}
