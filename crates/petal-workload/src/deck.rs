//! A shuffled deck of 100 cards: an exact percentage in every 100 draws, in random order.

use rand::RngExt as _;
use rand_xoshiro::Xoshiro256PlusPlus;

const CARDS: usize = 100;

/// A deck in which exactly `per_cent` of every 100 draws are hits. After 100 draws it is shuffled
/// again.
#[derive(Debug, Clone)]
pub struct Deck {
    cards: [bool; CARDS],
    drawn: usize,
}

impl Deck {
    /// A deck with `per_cent` (0..=100) hits, to be shuffled at its first draw.
    pub fn new(per_cent: u8) -> Self {
        let hits = usize::from(per_cent).min(CARDS);
        Self { cards: std::array::from_fn(|card| card < hits), drawn: CARDS }
    }

    /// Draws the next card.
    pub fn draw(&mut self, stream: &mut Xoshiro256PlusPlus) -> bool {
        if self.drawn == CARDS {
            shuffle(&mut self.cards, stream);
            self.drawn = 0;
        }
        let card = self.cards[self.drawn];
        self.drawn += 1;
        card
    }
}

/// Fisher and Yates's shuffle, with petal's own draws: a seed must give one order for ever.
pub fn shuffle<T>(items: &mut [T], stream: &mut Xoshiro256PlusPlus) {
    for last in (1..items.len()).rev() {
        items.swap(last, stream.random_range(0..=last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng as _;

    proptest! {
        #[test]
        fn every_hundred_draws_hold_the_percentage(per_cent in 0u8..=100, seed: u64) {
            let mut stream = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut deck = Deck::new(per_cent);
            for _ in 0..3 {
                let hits = (0..100).filter(|_| deck.draw(&mut stream)).count();
                prop_assert_eq!(hits, usize::from(per_cent));
            }
        }
    }

    #[test]
    fn the_order_is_random() {
        let mut stream = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut deck = Deck::new(50);
        let mut hits_by_position = [0u32; 100];
        for _ in 0..2000 {
            for hits in &mut hits_by_position {
                *hits += u32::from(deck.draw(&mut stream));
            }
        }
        // Each position is a hit in half of 2000 decks: 1000 with a standard deviation of 22.4.
        assert!(hits_by_position.iter().all(|hits| hits.abs_diff(1000) < 112), "5 sigma");
    }
}
