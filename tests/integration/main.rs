//! Drives the real `petal` as a user would, and breaks what lies around it. One binary, so that
//! it links once. What cannot run somewhere says `SKIPPED: why`; PETAL_TEST_REQUIRE=all makes
//! that a failure.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

mod awr;
mod browser;
mod calibrate;
mod cli;
mod compare;
mod compression;
mod conformance;
mod device;
mod devtools;
mod disk;
mod engine_postgres;
mod failing_io;
mod faults;
mod hooks;
mod injector;
mod json;
mod killed_at_end;
mod limits;
mod metrics;
mod mysql;
mod not_loaded;
mod oracle;
mod oracle_block;
mod oracle_captures;
mod oracle_speaks;
mod oracle_wire;
mod os;
mod os_devices;
mod outputs;
mod package;
mod perturbed;
mod physical;
mod postgres;
mod postgres_before;
mod postgres_broken;
mod postgres_endpoints;
mod postgres_limits;
mod postgres_load;
mod postgres_locks;
mod postgres_silence;
mod postgres_tls;
mod postgres_way_in;
mod proxy;
mod rows;
mod sandbox;
mod secrets;
mod server_mysql;
mod server_oracle;
mod server_postgres;
mod sessions;
mod support;
mod sweep;
