//! Values of a second by name, in order: a few, in a list that is no larger than they are. A day has
//! 86,400 of them.

use std::collections::BTreeMap;

use serde::de::Deserializer;
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq)]
pub struct ByName<T>(Vec<(Box<str>, T)>);

impl<T> Default for ByName<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> ByName<T> {
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(known, _)| **known == *name).map(|(_, value)| value)
    }

    /// The value of a name, which gets its default first if it is new.
    pub fn entry(&mut self, name: &str) -> &mut T
    where
        T: Default,
    {
        let at = self.0.partition_point(|(known, _)| **known < *name);
        if self.0.get(at).is_none_or(|(known, _)| **known != *name) {
            self.0.insert(at, (name.into(), T::default()));
        }
        &mut self.0[at].1
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut T)> {
        self.0.iter_mut().map(|(name, value)| (&**name, value))
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, value)| value)
    }

    pub fn retain(&mut self, mut is_kept: impl FnMut(&str) -> bool) {
        self.0.retain(|(name, _)| is_kept(name));
    }
}

impl<N: Into<String>, T> FromIterator<(N, T)> for ByName<T> {
    fn from_iter<I: IntoIterator<Item = (N, T)>>(all: I) -> Self {
        let sorted: BTreeMap<String, T> =
            all.into_iter().map(|(n, value)| (n.into(), value)).collect();
        Self(sorted.into_iter().map(|(name, value)| (name.into_boxed_str(), value)).collect())
    }
}

impl<T: Serialize> Serialize for ByName<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ByName<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(BTreeMap::<String, T>::deserialize(from)?.into_iter().collect())
    }
}
