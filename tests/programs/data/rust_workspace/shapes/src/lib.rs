//! Shapes behind a trait, and a generic index over anything that has a key.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::hash::Hash;

pub trait Shape: Send + Sync {
    fn area(&self) -> u64;
    fn name(&self) -> String;
}

pub struct Rectangle {
    pub width: u64,
    pub height: u64,
}

pub struct Polyline {
    pub steps: Vec<u64>,
}

impl Shape for Rectangle {
    fn area(&self) -> u64 {
        self.width * self.height
    }
    fn name(&self) -> String {
        format!("rectangle {} by {}", self.width, self.height)
    }
}

impl Shape for Polyline {
    fn area(&self) -> u64 {
        self.steps.iter().sum()
    }
    fn name(&self) -> String {
        let steps: Vec<String> = self.steps.iter().map(u64::to_string).collect();
        format!("polyline {}", steps.join("-"))
    }
}

/// A mix of shapes that is the same for the same seed.
pub fn mixed(count: u64, seed: u64) -> Vec<Box<dyn Shape>> {
    (0..count)
        .map(|i| -> Box<dyn Shape> {
            let n = i.wrapping_mul(2_654_435_761).wrapping_add(seed) % 1009;
            if n % 2 == 0 {
                Box::new(Rectangle { width: n, height: i % 50 })
            } else {
                Box::new(Polyline { steps: (0..n % 80).collect() })
            }
        })
        .collect()
}

pub struct Index<K, V> {
    groups: HashMap<K, Vec<V>>,
}

impl<K: Eq + Hash + Ord + Clone + Display, V: Clone + Ord> Index<K, V> {
    pub fn build<I: IntoIterator<Item = V>>(values: I, key: impl Fn(&V) -> K) -> Self {
        let mut groups: HashMap<K, Vec<V>> = HashMap::new();
        for value in values {
            groups.entry(key(&value)).or_default().push(value);
        }
        Index { groups }
    }

    pub fn sorted(&self) -> BTreeMap<K, Vec<V>> {
        self.groups
            .iter()
            .map(|(key, values)| {
                let mut values = values.clone();
                values.sort();
                (key.clone(), values)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_keeps_every_value() {
        let names: Vec<String> = mixed(5000, 1).iter().map(|shape| shape.name()).collect();
        let index = Index::build(names.clone(), |name| name.len());
        assert_eq!(index.sorted().values().map(Vec::len).sum::<usize>(), names.len());
    }

    #[test]
    fn alignment_beyond_sixteen_is_kept() {
        #[repr(align(256))]
        struct Wide([u8; 300]);
        let wides: Vec<Box<Wide>> = (0..500).map(|i| Box::new(Wide([i as u8; 300]))).collect();
        for (i, wide) in wides.iter().enumerate() {
            assert_eq!(&**wide as *const Wide as usize % 256, 0);
            assert!(wide.0.iter().all(|&byte| byte == i as u8));
        }
    }

    #[test]
    fn failed_reservation_is_an_error() {
        let mut bytes: Vec<u8> = Vec::new();
        assert!(bytes.try_reserve(isize::MAX as usize - 4096).is_err());
        bytes.push(1);
        assert_eq!(bytes, [1]);
    }

    #[test]
    #[should_panic(expected = "no shapes")]
    fn panics_unwind() {
        mixed(0, 0).first().expect("no shapes");
    }
}
