//! A run's folder: its name, and `run.json`, written once, by rename, at the end.
