-- Rows are wanted in the order of their blocks: one process, from the table's start.
SET LOCAL max_parallel_workers_per_gather = 0;
SET LOCAL synchronize_seqscans = off;
SET LOCAL enable_seqscan = on;
SET LOCAL enable_indexscan = off;
SET LOCAL enable_bitmapscan = off;
