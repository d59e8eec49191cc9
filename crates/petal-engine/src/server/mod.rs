//! The parts that every engine with a server shares. An engine brings its own transport (how rows,
//! statements and arrays travel), its SQL and its counters; the code here decides when something
//! is sent, how long an answer may take, and how to treat a failure.
//!
//! - `batch_loop`, `statement_loop`: the frames of LOOP=server and LOOP=client; `sides`: a session's
//!   loop on any side, if the driver prepares statements
//! - `session`: how another thread cancels or aborts a session
//! - `answer`: limits of one answer
//! - `failure`: the meaning of errors for a session and for a load, and their codes
//! - `liveness`, `future_wait`, `detached_worker`, `wait_monitor`: limits of waits, and the
//!   steps at their end; `driver_panic`: drivers that panic
//! - `peer`, `login`: servers that may get the password: the user at the other end, and the strength of
//!   logins; `driver_socket`: the socket that a driver hides; `password`: a program that prints one
//! - `identity`: the server and the load that a run met first, compared when sessions connect again
//! - `endpoint`: the state that connections to one server share, and their timeouts; `servers`: the
//!   servers of a run
//! - `per_schema`: a session's prepared statements for each schema
//! - `clock`: how a server's clock differs; `reset_watch`: counters that begin again in a run; `room`:
//!   whether its file systems have room for the work; `own_files`: where petal finds its files
//! - `wait_sampler`: the sessions' waits, by samples; `waiting`: connections that wait for their next step
//! - `loader`, `meta_table`, `row_layout`: how data are loaded, a load's description of itself, and
//!   the shape of a row
//!
//! Nothing here knows an engine, and no SQL is here. SQLite and the device, which have no
//! server, use the loader, the failures and the row's layout.

pub mod answer;
pub mod batch_loop;
pub mod clock;
pub mod data_name;
pub mod detached_worker;
pub mod driver_panic;
pub mod driver_socket;
pub mod endpoint;
pub mod failure;
pub mod figure_table;
pub mod future_wait;
pub mod identity;
pub mod liveness;
pub mod loader;
pub mod login;
pub mod meta_table;
pub mod own_files;
pub mod password;
pub mod peer;
pub mod per_schema;
pub mod reset_watch;
pub mod room;
pub mod row_layout;
#[cfg(any(test, feature = "testing"))]
pub mod scripted;
pub mod servers;
pub mod session;
pub mod sides;
pub mod statement_loop;
pub mod wait_monitor;
pub mod wait_sampler;
pub mod waiting;
