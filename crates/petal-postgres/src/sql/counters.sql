-- All that the server counts and petal keeps, as one JSON object by view; some only where
-- this version has them. Tables are petal's own.
SELECT pg_catalog.json_build_object(
    {views}
    'pg_stat_database', (SELECT pg_catalog.row_to_json(v) FROM (
        SELECT blks_read, blks_hit, xact_commit, xact_rollback, deadlocks, conflicts, temp_bytes,
               blk_read_time, blk_write_time, tup_inserted, tup_updated, tup_deleted, stats_reset
        FROM pg_catalog.pg_stat_database WHERE datname = pg_catalog.current_database()) AS v),
    'server', (SELECT pg_catalog.row_to_json(v) FROM (
        SELECT pg_catalog.pg_postmaster_start_time() AS stats_reset) AS v),
    'tables', (SELECT pg_catalog.row_to_json(v) FROM (
        SELECT coalesce(pg_catalog.sum(n_tup_upd), 0) AS n_tup_upd,
               coalesce(pg_catalog.sum(n_tup_hot_upd), 0) AS n_tup_hot_upd,
               coalesce(pg_catalog.sum(seq_scan), 0) AS seq_scan,
               coalesce(pg_catalog.sum(idx_scan), 0) AS idx_scan,
               coalesce(pg_catalog.sum(idx_tup_fetch), 0) AS idx_tup_fetch,
               coalesce(pg_catalog.sum(vacuum_count + autovacuum_count), 0) AS vacuums
        FROM pg_catalog.pg_stat_user_tables
        WHERE schemaname ~ '^petal[1-9][0-9]*$' AND relname IN ('cf1', 'cf2')) AS v),
    -- Without other indexes of the table: if one is dropped, the table's sum falls.
    'cf1', (SELECT pg_catalog.row_to_json(v) FROM (SELECT heap.*, of_index.* FROM
        (SELECT coalesce(pg_catalog.sum(heap_blks_read), 0) AS heap_blks_read,
                coalesce(pg_catalog.sum(heap_blks_hit), 0) AS heap_blks_hit
         FROM pg_catalog.pg_statio_user_tables
         WHERE schemaname ~ '^petal[1-9][0-9]*$' AND relname = 'cf1') AS heap,
        (SELECT coalesce(pg_catalog.sum(idx_blks_read), 0) AS idx_blks_read,
                coalesce(pg_catalog.sum(idx_blks_hit), 0) AS idx_blks_hit
         FROM pg_catalog.pg_statio_user_indexes
         WHERE schemaname ~ '^petal[1-9][0-9]*$' AND indexrelname = 'cf1_custid') AS of_index) AS v),
    'cf2', (SELECT pg_catalog.row_to_json(v) FROM (
        SELECT coalesce(pg_catalog.sum(heap_blks_read), 0) AS heap_blks_read,
               coalesce(pg_catalog.sum(heap_blks_hit), 0) AS heap_blks_hit
        FROM pg_catalog.pg_statio_user_tables
        WHERE schemaname ~ '^petal[1-9][0-9]*$' AND relname = 'cf2') AS v)
)::pg_catalog.text,
-- A standby makes no log of its own.
CASE WHEN pg_catalog.pg_is_in_recovery() THEN 0
     ELSE pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_insert_lsn(), '0/0')::bigint END,
(SELECT checkpoint_lsn::pg_catalog.text FROM pg_catalog.pg_control_checkpoint()),
pg_catalog.current_setting('wal_sync_method'), pg_catalog.current_setting('fsync')::boolean,
    pg_catalog.pg_is_in_recovery()
