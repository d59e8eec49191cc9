//! Work and records for browsers and Prometheus: one small HTTP server, its guard, metrics, and the pages
//! that no file has.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod gate;
pub mod http;
pub mod list;
pub mod live;
pub mod metrics;
