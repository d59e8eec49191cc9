//! How small sampled blocks get, as storage that compresses would make them.

/// Total bytes over total compressed bytes, each block by itself with LZ4, which storage arrays
/// and file systems use. Incompressible blocks grow a little under LZ4; storage would keep them as
/// they are, so nothing counts as less than 1.0. None for no blocks.
pub fn ratio(blocks: &[Vec<u8>]) -> Option<f64> {
    let bytes: usize = blocks.iter().map(Vec::len).sum();
    let stored: usize =
        blocks.iter().map(|block| lz4_flex::block::compress(block).len().min(block.len())).sum();
    (bytes > 0).then(|| bytes as f64 / stored as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::row::Filler;

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
