//! A session's operations by the schema whose routine executes them, for loops inside a database:
//! the routine of a schema knows its own tables and those of schema 1, the hot one.

use crate::workload::op::Operation;

/// Operations of a batch that go in one call.
#[derive(Debug)]
pub struct Turn<'a> {
    /// The schema at home there.
    pub home: u32,
    pub operations: &'a [Operation],
    /// The first one's position in the batch.
    pub from: usize,
}

/// The turn that begins at a position of the batch. `home`: the session's own schema, which schema 1
/// is reached from.
pub fn next(home: u32, batch: &[Operation], from: usize) -> Option<Turn<'_>> {
    let of = |operation: &Operation| if operation.schema == 1 { home } else { operation.schema };
    let rest = batch.get(from..)?;
    let home = of(rest.first()?);
    let length = rest.iter().take_while(|operation| of(operation) == home).count();
    Some(Turn { home, operations: rest.get(..length)?, from })
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
            hot: [false; 2],
        };
        schemas.iter().map(operation).collect()
    }

    #[test]
    fn the_hot_schema_is_reached_from_home() {
        let batch = batch(&[2, 1, 2, 5, 5, 1]);
        let turn = |from| next(2, &batch, from).map(|turn| (turn.home, turn.operations.len()));
        assert_eq!(turn(0), Some((2, 3)));
        assert_eq!(turn(3), Some((5, 2)));
        assert_eq!(turn(6), None);
    }

    proptest! {
        #[test]
        fn turns_are_the_batch_in_order(schemas in prop::collection::vec(1u32..5, 0..40), home in 1u32..5) {
            let all = batch(&schemas);
            let mut from = 0;
            while let Some(turn) = next(home, &all, from) {
                prop_assert!(turn.from == from && !turn.operations.is_empty());
                let of = |schema| schema == turn.home || schema == 1 && turn.home == home;
                prop_assert!(turn.operations.iter().all(|one| of(one.schema)));
                from += turn.operations.len();
            }
            prop_assert_eq!(from, all.len());
        }
    }
}
