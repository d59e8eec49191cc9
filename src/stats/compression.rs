//! How small sampled blocks get.
