//! Times of single events in the kernel, for any database: programs in the kernel (BPF) count them
//! in histograms, and petal reads these once a second.
//!
//! The programs are typed tracepoints. They find the kernel's structures by the type information of
//! the running kernel, so that one object serves kernels from 5.12 on and needs no mounted tracefs.

pub mod calls;
mod counting;
pub mod requests;
pub mod threads;
pub mod writes;
