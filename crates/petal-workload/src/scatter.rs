//! A seeded permutation of 0..n that needs no memory: which key goes into which block.
//!
//! A balanced Feistel network over the smallest even number of bits that holds n, with cycle
//! walking: an image past n is permuted again until it falls inside (fewer than four rounds on
//! average, because the domain is less than four times n). See Black and Rogaway, "Ciphers with
//! arbitrary finite domains" (CT-RSA 2002). It is a scatter, not a cipher.

const ROUNDS: usize = 4;

/// A bijection on 0..n.
#[derive(Debug, Clone, Copy)]
pub struct Permutation {
    size: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// A permutation of `0..size`, the same for the same seed.
    pub fn new(size: u64, seed: u64) -> Self {
        let bits = 64 - size.saturating_sub(1).leading_zeros();
        let half_bits = bits.div_ceil(2).max(1);
        let keys = std::array::from_fn(|round| mix(seed ^ mix(round as u64 + 1)));
        Self { size, half_bits, keys }
    }

    /// The image of `index`, which must be below the size.
    pub fn apply(&self, index: u64) -> u64 {
        assert!(index < self.size, "{index} is outside of a permutation of {}", self.size);
        let mut image = self.encrypt(index);
        while image >= self.size {
            image = self.encrypt(image);
        }
        image
    }

    /// The index whose image this is.
    pub fn invert(&self, image: u64) -> u64 {
        assert!(image < self.size, "{image} is outside of a permutation of {}", self.size);
        let mut index = self.decrypt(image);
        while index >= self.size {
            index = self.decrypt(index);
        }
        index
    }

    fn encrypt(&self, index: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (index >> self.half_bits, index & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half_bits | right
    }

    fn decrypt(&self, image: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (image >> self.half_bits, image & mask);
        for key in self.keys.into_iter().rev() {
            (left, right) = (right ^ (mix(left ^ key) & mask), left);
        }
        left << self.half_bits | right
    }
}

/// SplitMix64's finaliser: every input bit reaches every output bit (Steele, Lea and Flood,
/// "Fast splittable pseudorandom number generators", OOPSLA 2014).
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_key_gets_exactly_one_block(size in 1u64..5_000, seed: u64) {
            let permutation = Permutation::new(size, seed);
            let mut images: Vec<u64> = (0..size).map(|index| permutation.apply(index)).collect();
            prop_assert!((0..size).all(|index| permutation.invert(images[index as usize]) == index));
            images.sort_unstable();
            prop_assert!(images.into_iter().eq(0..size));
        }

        #[test]
        fn large_sizes_stay_inside(size in 1u64 << 40..1u64 << 50, index in 0u64..1 << 40, seed: u64) {
            prop_assert!(Permutation::new(size, seed).apply(index) < size);
        }
    }

    #[test]
    fn neighbours_lie_far_apart() {
        let size = 100_000;
        let permutation = Permutation::new(size, 7);
        let near = (1..size)
            .filter(|&i| permutation.apply(i).abs_diff(permutation.apply(i - 1)) < size / 100)
            .count() as f64;
        // Two uniform places are within 1 % of the size of each other with probability 0.0199.
        let share = near / size as f64;
        assert!((share - 0.0199).abs() < 0.002, "{share}");
    }

    #[test]
    fn seeds_differ() {
        let (a, b) = (Permutation::new(1000, 1), Permutation::new(1000, 2));
        assert!((0..1000).any(|i| a.apply(i) != b.apply(i)));
    }
}
