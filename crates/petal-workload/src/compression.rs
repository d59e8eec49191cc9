//! The compression ratio of sampled blocks, as storage that compresses would reach it, and the
//! filler that brings a block to a ratio.

use crate::row::{COLUMNS, Filler, load_stamp};

/// Blocks on which a filler is tried.
const TRIED_BLOCKS: u64 = 8;

/// Total bytes over total compressed bytes, each block by itself with LZ4, which storage arrays
/// and file systems use. Incompressible blocks grow a little under LZ4; storage would keep them as
/// they are, so nothing counts as less than 1.0. None for no blocks.
pub fn ratio(blocks: &[Vec<u8>]) -> Option<f64> {
    let bytes: usize = blocks.iter().map(Vec::len).sum();
    let stored: usize =
        blocks.iter().map(|block| lz4_flex::block::compress(block).len().min(block.len())).sum();
    (bytes > 0).then(|| bytes as f64 / stored as f64)
}

/// The filler that brings the compression ratio of a block of such columns, zero elsewhere,
/// closest to `ratio`.
pub fn filler(ratio: f64, block_bytes: usize, column_bytes: usize) -> Filler {
    let part = |random_bytes| Filler::Part { ratio, random_bytes };
    let comes_to = |random_bytes| {
        let blocks: Vec<Vec<u8>> = (1..=TRIED_BLOCKS)
            .map(|key| block(part(random_bytes), block_bytes, column_bytes, load_stamp(1, key)))
            .collect();
        self::ratio(&blocks).unwrap_or(1.0)
    };
    // More random bytes compress less: the fewest with which it is no more than asked.
    let (mut low, mut high) = (0, (column_bytes * COLUMNS) as u32);
    while low < high {
        let middle = low.midpoint(high);
        match comes_to(middle) > ratio {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    part(low)
}

/// A block as a load makes it: a row at its end, and nothing else of note.
pub fn block(filler: Filler, block_bytes: usize, column_bytes: usize, stamp: u64) -> Vec<u8> {
    let mut block = vec![0u8; block_bytes];
    let row = block_bytes.saturating_sub(column_bytes * COLUMNS);
    for (column, number) in block[row..].chunks_exact_mut(column_bytes.max(1)).zip(2..) {
        filler.fill(column, stamp, number);
    }
    block
}

/// Blocks of rows that are spread evenly over a schema of `rows` rows, as its load made them.
pub fn sampled(
    (schema, rows): (u32, u64),
    filler: Filler,
    block_bytes: usize,
    column_bytes: usize,
) -> Vec<Vec<u8>> {
    let keys = (1..=rows).step_by((rows / 64).max(1) as usize);
    keys.map(|key| block(filler, block_bytes, column_bytes, load_stamp(schema, key))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_with_its_free_space_comes_to_the_ratio_where_it_can() {
        let comes_to = |asked: f64, block_bytes, column_bytes| {
            let filler = filler(asked, block_bytes, column_bytes);
            ratio(&sampled((1, 1000), filler, block_bytes, column_bytes)).unwrap()
        };
        // Rows of 72 % of the page, as SQLite's, and all of it, as the device's.
        for (block_bytes, column_bytes) in [(4096, 155), (8192, 307), (8192, 427), (32768, 1240)] {
            for asked in [1.5, 2.0, 4.0] {
                let ratio = comes_to(asked, block_bytes, column_bytes);
                assert!((ratio / asked - 1.0).abs() < 0.03, "{asked} of {block_bytes}: {ratio}");
            }
        }
        // 2.4 of 8 KiB, as PostgreSQL's: the free space alone compresses more than that.
        assert!((3.3..3.8).contains(&comes_to(2.0, 8192, 128)));
        assert!((3.9..4.1).contains(&comes_to(4.0, 8192, 128)));
        // No more than constant text does, whose stamps differ for every row.
        let most = Filler::Part { ratio: 1000.0, random_bytes: 0 };
        assert_eq!(filler(1000.0, 8192, 307), most);
    }

    fn blocks(filler: Filler) -> Vec<Vec<u8>> {
        let block = |stamp| {
            let mut block = vec![0; 8192];
            filler.fill(&mut block, stamp, 2);
            block
        };
        (0..16).map(block).collect()
    }

    #[test]
    fn constant_text_compresses_and_random_text_does_not() {
        assert!(ratio(&blocks(Filler::Constant)).unwrap() > 50.0);
        assert!((1.0..1.1).contains(&ratio(&blocks(Filler::Random)).unwrap()));
        assert_eq!(ratio(&[]), None);
        assert_eq!(ratio(&[Vec::new()]), None);
    }

    #[test]
    fn bytes_are_weighed_not_ratios_averaged() {
        let mut noise = vec![0; 8192];
        let mut state = 1u64;
        noise.fill_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        });
        assert_eq!(ratio(&[noise.clone()]), Some(1.0), "what grows is kept as it is");
        assert!((1.9..=2.0).contains(&ratio(&[noise, vec![7; 8192]]).unwrap()));
    }
}
