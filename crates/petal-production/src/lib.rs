//! Loads of production: a database's own reports as figures (`petal awr`), profiles of its work over time
//! (`petal profile`), and their replay elsewhere (`petal replay`).

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod moments;
pub mod profile;
pub mod replay;
pub mod reports;
pub mod rise;
pub mod shown;
