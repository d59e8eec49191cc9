//! `latency.hlog`: every second's histogram as a HdrHistogram V2 interval log.
