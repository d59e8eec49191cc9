//! slob.conf's grammar.
