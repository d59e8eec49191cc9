//! A session's operations by the schema whose routine executes them, for loops inside a database:
//! the routine of a schema knows its own tables and those of schema 1, the hot one.

use crate::workload::op::Operation;

/// The operations that come first and go in one call, and the schema at home there. `home`: the
/// session's own, which schema 1 is reached from.
pub fn next(home: u32, rest: &[Operation]) -> Option<(u32, &[Operation])> {
    let of = |operation: &Operation| if operation.schema == 1 { home } else { operation.schema };
    let at_home = of(rest.first()?);
    let length = rest.iter().take_while(|operation| of(operation) == at_home).count();
    Some((at_home, rest.get(..length)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::op::Kind;
    use proptest::prelude::*;

    fn batch(schemas: &[u32]) -> Vec<Operation> {
        let operation = |&schema: &u32| Operation {
            kind: Kind::Select,
            schema,
            first: 1,
            rows: 1,
            stamp: 0,
            due: None,
        };
        schemas.iter().map(operation).collect()
    }

    #[test]
    fn the_hot_schema_is_reached_from_home() {
        let (home, turn) = (2, batch(&[2, 1, 2, 5, 5, 1]));
        assert_eq!(next(home, &turn).map(|(at, turn)| (at, turn.len())), Some((2, 3)));
        assert_eq!(next(home, &turn[3..]).map(|(at, turn)| (at, turn.len())), Some((5, 2)));
        assert_eq!(next(home, &[]), None);
    }

    proptest! {
        #[test]
        fn turns_are_the_batch_in_order(schemas in prop::collection::vec(1u32..5, 0..40), home in 1u32..5) {
            let all = batch(&schemas);
            let mut rest = &all[..];
            while let Some((at, turn)) = next(home, rest) {
                prop_assert!(!turn.is_empty());
                prop_assert!(turn.iter().all(|one| one.schema == at || one.schema == 1 && at == home));
                rest = &rest[turn.len()..];
            }
            prop_assert!(rest.is_empty());
        }
    }
}
