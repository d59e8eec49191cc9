//! How small sampled blocks get.

/// How many times smaller the blocks are after LZ4, which storage arrays commonly use, each
/// compressed by itself: all their bytes over all compressed bytes, and 1.0 where LZ4 gains
/// nothing. None without blocks.
pub fn ratio(blocks: &[Vec<u8>]) -> Option<f64> {
    let bytes: usize = blocks.iter().map(Vec::len).sum();
    let compressed: usize =
        blocks.iter().map(|block| lz4_flex::block::compress(block).len().min(block.len())).sum();
    (compressed > 0).then(|| bytes as f64 / compressed as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_blocks_shrink_and_no_blocks_are_unknown() {
        assert!(ratio(&[vec![7; 8192]]).unwrap() > 100.0);
        assert_eq!(ratio(&[]), None);
        // What LZ4 cannot shrink is kept as it is: never below one.
        assert_eq!(ratio(&[(0..=255).collect()]), Some(1.0));
    }
}
