//! The ledgers of a run's driver hosts as one.

use std::path::PathBuf;

use super::super::RecordError;
use super::{Ending, Ledger, LedgerHeader, LedgerSchema};

/// Merges ledgers of one run, each of a different share; a single one stays unchanged.
pub fn merge(ledgers: Vec<(PathBuf, Ledger)>) -> Result<Ledger, RecordError> {
    let mut all = ledgers.into_iter();
    let triggers: Vec<i64> =
        all.as_slice().iter().filter_map(|(_, ledger)| ledger.trigger_utc_us).collect();
    let Some((_, mut merged)) = all.next() else {
        let why = "there is no ledger".to_owned();
        return Err(RecordError::Share { path: PathBuf::new(), why });
    };
    for (path, ledger) in all {
        let refused = |why: String| Err(RecordError::Share { path: path.clone(), why });
        let (share, of) = (ledger.header.share, merged.header.share.map(|share| share.of));
        if run(&ledger.header) != run(&merged.header) {
            return refused("it is of another run than the first ledger".to_owned());
        }
        let Some(share) = share.filter(|share| Some(share.of) == of) else {
            return refused("it and the first ledger are not of shares of one run".to_owned());
        };
        if !merged.shares.insert(share.number) {
            return refused(format!("a ledger of share {share} was given before it"));
        }
        merged.commits.extend(ledger.commits);
        merged.ending = match (merged.ending, ledger.ending) {
            (Ending::Cut { torn_bytes: one }, Ending::Cut { torn_bytes: other }) => {
                Ending::Cut { torn_bytes: one + other }
            }
            (Ending::Whole, ending) | (ending, Ending::Whole) => ending,
        };
        merged.trigger_utc_us = merged.trigger_utc_us.or(ledger.trigger_utc_us);
        merged.last_ns = merged.last_ns.max(ledger.last_ns);
    }
    if let (Some(first), Some(last)) = (triggers.iter().min(), triggers.iter().max()) {
        merged.triggers_apart_us = last.abs_diff(*first);
    }
    merged.commits.sort_unstable_by_key(|commit| commit.version);
    Ok(merged)
}

/// Header fields that all hosts of a run have in common; the target's name may differ.
fn run(header: &LedgerHeader) -> (u64, u32, bool, u64, &[LedgerSchema]) {
    let LedgerHeader { stamp_mask, sessions, heavy, rows, schemas, .. } = header;
    (*stamp_mask, *sessions, *heavy, *rows, schemas)
}

#[cfg(test)]
mod tests {
    use super::super::read::tests::{commit, header};
    use super::*;
    use petal_workload::share::Share;

    fn of_share(number: u32, ending: Ending) -> (PathBuf, Ledger) {
        let share = Some(Share { number, of: 2 });
        let ledger = Ledger {
            header: LedgerHeader { share, ..header() },
            shares: [number].into(),
            commits: vec![commit(number, 1), commit(number, 2)],
            ending,
            trigger_utc_us: Some(5),
            triggers_apart_us: 0,
            last_ns: 100 * u64::from(number),
        };
        (PathBuf::from(format!("{number}.ledger")), ledger)
    }

    fn refused(one: (PathBuf, Ledger), other: (PathBuf, Ledger)) -> String {
        merge(vec![one, other]).unwrap_err().to_string()
    }

    #[test]
    fn ledgers_of_shares_are_one_in_any_order() {
        let cut = Ending::Cut { torn_bytes: 7 };
        let (one, other) = (of_share(1, Ending::Whole), of_share(2, cut));
        let merged = merge(vec![other.clone(), one.clone()]).unwrap();
        assert_eq!(merged.commits, [commit(1, 1), commit(1, 2), commit(2, 1), commit(2, 2)]);
        assert_eq!((merged.ending, merged.last_ns, merged.shares.len()), (cut, 200, 2));
        assert_eq!(merge(vec![one.clone()]).unwrap(), one.1);
        let whole = merge(vec![one, of_share(2, Ending::Whole)]).unwrap();
        assert_eq!(whole.ending, Ending::Whole);
    }

    #[test]
    fn triggers_are_as_far_apart_as_the_first_and_the_last() {
        let apart = |triggers: [Option<i64>; 3]| {
            let ledgers = (1..).zip(triggers).map(|(number, trigger_utc_us)| {
                let (path, mut ledger) = of_share(number, Ending::Whole);
                ledger.header.share = Some(Share { number, of: 3 });
                (path, Ledger { trigger_utc_us, ..ledger })
            });
            merge(ledgers.collect()).unwrap().triggers_apart_us
        };
        assert_eq!(apart([Some(7), Some(3_000_005), Some(5)]), 3_000_000);
        assert_eq!((apart([None, Some(9), Some(5)]), apart([None; 3])), (4, 0));
    }

    #[test]
    fn ledgers_that_are_not_of_one_run_are_refused() {
        let one = of_share(1, Ending::Whole);
        let mut other = of_share(2, Ending::Whole);
        assert!(refused(one.clone(), one.clone()).contains("share 1/2 was given before"));
        other.1.header.share = None;
        assert!(refused(one.clone(), other.clone()).contains("not of shares of one run"));
        other.1.header.stamp_mask = 3;
        assert!(refused(one, other).contains("another run"));
    }
}
