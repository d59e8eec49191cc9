//! `journal.ndjson`: settings and target in the first line, then a line a second, flushed.
