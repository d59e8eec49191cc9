//! The placement of rows in pages, by their addresses (`ctid`), read in the order of the pages.

use petal_host::numbers::whole;
use std::io::{BufRead, Read as _};

use super::client::{Client, Error};
use super::connect::engine_error;
use super::filling;
use super::schema::relation_bytes;
use petal_engine::{EngineError, Placement, Result};

/// Rows between two reports of progress.
const REPORT_EVERY: u64 = 4096;
/// The parts of a row with an address in binary COPY: fields, length, block, place in the block.
const FIELDS_BYTES: usize = 2;
const ADDRESS_BYTES: usize = 4 + 4 + 2;

/// Reads the whole main table, and calls `read` with the rows that were read since it was last called.
pub fn count(
    client: &mut Client,
    name: &str,
    block_bytes: u32,
    read: &dyn Fn(u64),
) -> Result<Placement> {
    let doing = format!("counting pages of {name}.cf1");
    let server = client.server.clone();
    // One that fails ends with its connection.
    client.run(&doing, "BEGIN")?;
    client.run(&doing, include_str!("sql/placement.sql"))?;
    let sql = format!("COPY (SELECT ctid FROM {name}.cf1) TO STDOUT (FORMAT binary)");
    let addresses = client.copy_out(&sql).map_err(|error| engine_error(&server, &doing, &error))?;
    let tally =
        SeenBlocks::of(addresses, read).map_err(|error| match error.downcast::<Error>() {
            Ok(error) => engine_error(&server, &doing, &error),
            Err(error) => EngineError::Database(format!("{server}: {doing}: {error}")),
        })?;
    let size = relation_bytes(client, &format!("{name}.cf1"))?;
    client.run(&doing, "COMMIT")?;
    if tally.end > size / u64::from(block_bytes.max(1)) {
        return Err(EngineError::Database(format!(
            "{server}: {doing}: rows in block {}, but the table has {size} bytes",
            tally.end - 1,
            size = whole(size)
        )));
    }
    Ok(tally.placement())
}

/// The rows and blocks seen of a table.
#[derive(Debug, Default, PartialEq)]
struct SeenBlocks {
    rows: u64,
    blocks: u64,
    rows_in_block: u64,
    rows_per_block_max: u64,
    /// The block after the last that has a row.
    end: u64,
}

impl SeenBlocks {
    fn of(mut from: impl BufRead, read: &dyn Fn(u64)) -> std::io::Result<Self> {
        let mut tally = Self::default();
        std::io::copy(&mut (&mut from).take(filling::HEADER.len() as u64), &mut std::io::sink())?;
        let mut fields = [0; FIELDS_BYTES];
        let mut address = [0; ADDRESS_BYTES];
        let mut reported = 0;
        loop {
            from.read_exact(&mut fields)?;
            if fields == filling::TRAILER {
                break;
            }
            from.read_exact(&mut address)?;
            let [_, _, _, _, block @ .., _, _] = address;
            tally.add(u32::from_be_bytes(block).into())?;
            if tally.rows - reported >= REPORT_EVERY {
                read(tally.rows - reported);
                reported = tally.rows;
            }
        }
        read(tally.rows - reported);
        // Then comes the end of the statement, with its error if there was one.
        std::io::copy(&mut from, &mut std::io::sink())?;
        Ok(tally)
    }

    fn add(&mut self, block: u64) -> std::io::Result<()> {
        self.rows += 1;
        if self.rows > 1 && block + 1 < self.end {
            return Err(std::io::Error::other("the server returned its rows out of order"));
        }
        if self.rows == 1 || block >= self.end {
            self.blocks += 1;
            self.rows_in_block = 0;
            self.end = block + 1;
        }
        self.rows_in_block += 1;
        self.rows_per_block_max = self.rows_per_block_max.max(self.rows_in_block);
        Ok(())
    }

    /// Blocks without a row count among those with one. After the last row the server may keep
    /// some in reserve: 16 and later extend a table by several blocks at once.
    fn placement(&self) -> Placement {
        Placement {
            rows: self.rows,
            blocks: self.blocks,
            rows_per_block_max: self.rows_per_block_max,
            overflow_blocks: Some(self.end - self.blocks),
            source: "ctid",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(blocks: &[u32]) -> std::io::Result<SeenBlocks> {
        let mut stream = filling::HEADER.to_vec();
        for block in blocks {
            stream.extend_from_slice(&[0, 1, 0, 0, 0, 6]);
            stream.extend_from_slice(&block.to_be_bytes());
            stream.extend_from_slice(&[0, 1]);
        }
        stream.extend_from_slice(&filling::TRAILER);
        let read = std::cell::Cell::new(0);
        let tally = SeenBlocks::of(stream.as_slice(), &|rows| read.set(read.get() + rows))?;
        assert_eq!(read.get(), blocks.len() as u64);
        Ok(tally)
    }

    #[test]
    fn only_one_row_in_each_block_is_one_row_per_block() {
        let all: Vec<u32> = (0..10_000).collect();
        for (blocks, as_meant) in [
            (all.as_slice(), true),
            (&[0, 1, 2], true),
            (&[], true),
            (&[0, 1, 1, 2], false), // Two in one.
            (&[0, 2, 3], false),    // One without a row.
            (&[1, 2], false),
        ] {
            let placement = tally(blocks).unwrap().placement();
            assert_eq!(placement.is_one_row_per_block(), as_meant, "{placement:?}");
            assert_eq!(placement.rows, blocks.len() as u64);
        }
        assert_eq!(tally(&[0, 1, 1, 1, 2, 2]).unwrap().rows_per_block_max, 3);
    }

    #[test]
    fn rows_out_of_order_are_no_proof() {
        assert!(tally(&[0, 2, 1]).unwrap_err().to_string().contains("out of order"));
        assert!(tally(&[0, 1, 0]).is_err());
    }

    #[test]
    fn a_stream_without_its_end_is_no_proof() {
        let stream = [filling::HEADER, &[0, 1, 0, 0, 0, 6, 0, 0][..]].concat();
        assert!(SeenBlocks::of(stream.as_slice(), &|_| ()).is_err());
    }
}
