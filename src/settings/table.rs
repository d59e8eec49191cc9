//! The one table of parameters.
