-- What is there: petal's own data, SLOB's, and what the database tells of itself.

-- name: marked_tables
SELECT table_name FROM sys.user_tab_comments
WHERE table_type = 'TABLE' AND comments LIKE '{mark}%' ORDER BY table_name

-- name: own_tables
SELECT table_name FROM sys.user_tables
WHERE table_name IN ('PETAL_META', 'PETAL_PROBE') OR REGEXP_LIKE(table_name, '^PETAL[1-9][0-9]*_CF[12]$')
ORDER BY table_name

-- name: read_meta
SELECT TO_CHAR(schema_number), key, value FROM petal_meta ORDER BY schema_number, key

-- name: segments
SELECT segment_name, TO_CHAR(SUM(bytes)) FROM sys.user_segments
WHERE REGEXP_LIKE(segment_name, '^PETAL[1-9][0-9]*_CF[12](_CUSTID)?$')
GROUP BY segment_name

-- name: slob_tables
-- SLOB's schemas: users user1 to userN, each with a table cf1 of a key and nineteen columns.
-- The blocks are statistics': old, or none.
SELECT t.owner, t.table_name, TO_CHAR(NVL(t.blocks, 0)), t.tablespace_name
FROM sys.all_tables t
WHERE REGEXP_LIKE(t.owner, '^USER[1-9][0-9]*$') AND t.table_name IN ('CF1', 'CF2')
    AND (
        SELECT COUNT(*) FROM sys.all_tab_columns c
        WHERE c.owner = t.owner AND c.table_name = t.table_name
            AND (c.column_name = 'CUSTID' OR REGEXP_LIKE(c.column_name, '^C([2-9]|1[0-9]|20)$'))
    ) = 20
ORDER BY t.owner, t.table_name

-- name: slob_indexes
SELECT i.owner, i.index_name, TO_CHAR(NVL(i.leaf_blocks, 0))
FROM sys.all_indexes i
JOIN sys.all_ind_columns c ON c.index_owner = i.owner AND c.index_name = i.index_name
WHERE REGEXP_LIKE(i.table_owner, '^USER[1-9][0-9]*$') AND i.table_name = 'CF1'
    AND c.column_name = 'CUSTID' AND c.column_position = 1

-- name: slob_segments
-- What they really take up, for who may see it.
SELECT owner, segment_name, TO_CHAR(SUM(bytes)), TO_CHAR(SUM(blocks))
FROM sys.dba_segments
WHERE REGEXP_LIKE(owner, '^USER[1-9][0-9]*$') AND segment_type LIKE '%TABLE%' AND segment_name IN ('CF1', 'CF2')
    OR (owner, segment_name) IN (
        SELECT owner, index_name FROM sys.all_indexes
        WHERE REGEXP_LIKE(table_owner, '^USER[1-9][0-9]*$') AND table_name = 'CF1'
    )
GROUP BY owner, segment_name

-- name: slob_rows
SELECT TO_CHAR(COUNT(*)) FROM {table}

-- name: slob_keys
SELECT TO_CHAR(COUNT(custid)), TO_CHAR(NVL(MIN(custid), 0)), TO_CHAR(NVL(MAX(custid), 0))
FROM {table}

-- name: slob_width
SELECT TO_CHAR(NVL(LENGTH(c2), 0)) FROM {table} WHERE custid = :1

-- name: default_tablespace
SELECT default_tablespace FROM sys.user_users

-- name: tablespace
SELECT TO_CHAR(block_size), segment_space_management, logging, force_logging, bigfile, status, contents
FROM sys.user_tablespaces WHERE tablespace_name = :1

-- name: block_size
-- Of the database; a tablespace may have another.
SELECT value FROM sys.v_$parameter WHERE name = 'db_block_size'

-- name: version_full
-- Since 18c, whose version is that of the base release.
SELECT version_full FROM sys.product_component_version WHERE product LIKE 'Oracle%'

-- name: version
SELECT version FROM sys.product_component_version WHERE product LIKE 'Oracle%'

-- name: alive
SELECT dummy FROM sys.dual

-- name: session_at_work
-- A row if the session works; where two instances have one of these numbers, if either works.
-- SERVER is NONE where no shared server serves the session: it may wait in their queue.
SELECT status FROM sys.gv_$session
WHERE sid = :1 AND serial# = :2 AND (status = 'ACTIVE' OR server = 'NONE')

-- name: instance
SELECT TO_CHAR(SYS_CONTEXT('USERENV', 'INSTANCE')) FROM sys.dual

-- name: container
-- 0: the database has no containers; 1: the root; above: a pluggable database.
SELECT SYS_CONTEXT('USERENV', 'CON_NAME'), TO_CHAR(SYS_CONTEXT('USERENV', 'CON_ID')) FROM sys.dual

-- name: instances
SELECT TO_CHAR(inst_id), instance_name, host_name FROM sys.gv_$instance ORDER BY inst_id

-- name: buffer_pool
-- Of a table; without an owner, one of the user's own.
SELECT buffer_pool FROM sys.all_tables WHERE owner = NVL(:1, USER) AND table_name = :2

-- name: buffer_pools
-- KEEP and RECYCLE are of the database's own block size alone.
SELECT name, TO_CHAR(block_size), TO_CHAR(SUM(current_size) * 1048576) FROM sys.gv_$buffer_pool
GROUP BY name, block_size

-- name: rowid_steps
-- Addresses of rows in the order of the blocks, and not all of them, for petal costs.
SELECT ROWIDTOCHAR(address) FROM (
    SELECT t.ROWID AS address, ROW_NUMBER() OVER (ORDER BY t.ROWID) AS place
    FROM {main} t
)
WHERE MOD(place, {step}) = 1 ORDER BY place

-- name: system_statistics
-- What the optimizer takes for the times of reads. Most users may not read it.
SELECT pname, TO_CHAR(pval1) FROM sys.aux_stats$
WHERE sname = 'SYSSTATS_MAIN' AND pname IN ('SREADTIM', 'MREADTIM', 'MBRC')

-- name: parameters
-- Underscore parameters are in this view only where somebody set them.
SELECT name, value FROM sys.v_$parameter
WHERE name IN (
    'db_block_size', 'sga_target', 'sga_max_size', 'memory_target', 'pga_aggregate_target',
    'db_cache_size', 'db_4k_cache_size', 'db_8k_cache_size', 'db_16k_cache_size',
    'db_32k_cache_size', 'db_flash_cache_size', 'db_keep_cache_size', 'db_recycle_cache_size',
    'cpu_count', 'processes', 'sessions', 'filesystemio_options', 'disk_asynch_io',
    'db_file_multiblock_read_count', 'db_writer_processes', 'dbwr_io_slaves', 'log_buffer',
    'commit_wait', 'commit_logging', 'commit_write', 'fast_start_mttr_target',
    'log_checkpoint_interval', 'log_checkpoint_timeout', 'archive_lag_target', 'db_block_checksum',
    'db_block_checking', 'db_lost_write_protect', 'undo_retention', 'use_large_pages',
    'resource_manager_plan', 'result_cache_mode', 'cluster_database', 'inmemory_size',
    'use_indirect_data_buffers', 'optimizer_ignore_hints', 'optimizer_ignore_parallel_hints',
    'control_management_pack_access', 'statistics_level', 'parallel_max_servers', 'max_iops',
    'max_mbps'
) OR name LIKE '\_%' ESCAPE '\'
ORDER BY name

-- name: pack_access
-- NONE: nobody may use AWR, whose snapshots are then empty.
SELECT value FROM sys.v_$parameter WHERE name = 'control_management_pack_access'

-- name: ignored_hints
-- As this session has it.
SELECT name, value FROM sys.v_$parameter
WHERE name IN ('optimizer_ignore_hints', 'optimizer_ignore_parallel_hints') ORDER BY name

-- name: redo_logs
SELECT TO_CHAR(COUNT(*)), TO_CHAR(MIN(bytes)), TO_CHAR(MAX(bytes)), TO_CHAR(COUNT(DISTINCT thread#))
FROM sys.v_$log

-- name: log_mode
SELECT log_mode, force_logging FROM sys.v_$database

-- name: flashback
SELECT flashback_on FROM sys.v_$database

-- name: encrypted
SELECT encrypted FROM sys.user_tablespaces WHERE tablespace_name = :1

-- name: synchronous_destinations
-- Standbys whose answer a commit waits for.
SELECT TO_CHAR(dest_id), transmit_mode FROM sys.v_$archive_dest
WHERE status = 'VALID' AND target = 'STANDBY'
    AND transmit_mode IN ('SYNCHRONOUS', 'PARALLELSYNC')
ORDER BY dest_id

-- name: cell_reads
SELECT TO_CHAR(COUNT(*)) FROM sys.gv_$system_event
WHERE event LIKE 'cell single block physical read%' AND total_waits > 0

-- name: data_files
SELECT file_name FROM sys.dba_data_files WHERE tablespace_name = :1 ORDER BY file_name

-- name: asm_disks
-- Devices of a disk group, as this host names them if the instance is here.
SELECT d.path FROM sys.v_$asm_disk d
JOIN sys.v_$asm_diskgroup g ON g.group_number = d.group_number
WHERE g.name = :1 AND d.path IS NOT NULL ORDER BY d.path

-- name: free_space
-- Inside the files of a tablespace; what the recycle bin holds is free.
SELECT TO_CHAR(NVL(SUM(bytes), 0)) FROM sys.user_free_space WHERE tablespace_name = :1

-- name: file_room
-- Files of a tablespace, their bytes now, and the bytes up to which they extend by themselves.
SELECT TO_CHAR(COUNT(*)), TO_CHAR(SUM(bytes)),
    TO_CHAR(SUM(DECODE(autoextensible, 'YES', GREATEST(bytes, maxbytes), bytes)))
FROM sys.dba_data_files WHERE tablespace_name = :1

-- name: temporary_tablespace
SELECT temporary_tablespace FROM sys.user_users

-- name: temporary_room
SELECT TO_CHAR(COUNT(*)), TO_CHAR(SUM(bytes)),
    TO_CHAR(SUM(DECODE(autoextensible, 'YES', GREATEST(bytes, maxbytes), bytes)))
FROM sys.dba_temp_files WHERE tablespace_name = :1

-- name: undo_tablespace
SELECT UPPER(value) FROM sys.v_$parameter WHERE name = 'undo_tablespace'

-- name: managed_files
-- Where the database puts files that nobody names; and its block size.
SELECT name, value FROM sys.v_$parameter WHERE name IN ('db_create_file_dest', 'db_block_size')

-- name: quota
-- Bytes used, and the most; -1 is no limit. A user with UNLIMITED TABLESPACE needs no row.
SELECT TO_CHAR(bytes), TO_CHAR(max_bytes) FROM sys.user_ts_quotas WHERE tablespace_name = :1

-- name: unlimited
SELECT privilege FROM sys.session_privs WHERE privilege = 'UNLIMITED TABLESPACE'

-- name: archive_room
-- Of the fast recovery area; what the database may delete there is room.
SELECT name, TO_CHAR(space_limit), TO_CHAR(space_used - space_reclaimable)
FROM sys.v_$recovery_file_dest WHERE space_limit > 0

-- name: callers_rights
-- A row if a package runs with its caller's rights: whatever its owner put into it would run with petal's.
SELECT object_name FROM sys.all_procedures
WHERE owner = :1 AND object_name = :2 AND authid = 'CURRENT_USER'

-- name: free_sessions
-- The lower of the two limits, less its use, summed over the open instances. UNLIMITED is no number.
SELECT TO_CHAR(SUM(free)) FROM (
    SELECT MIN(TO_NUMBER(TRIM(limit_value)) - current_utilization) free
    FROM sys.gv_$resource_limit
    WHERE resource_name IN ('processes', 'sessions')
        AND REGEXP_LIKE(TRIM(limit_value), '^[0-9]+$')
    GROUP BY inst_id
)

-- name: explain
EXPLAIN PLAN SET STATEMENT_ID = '{id}' INTO sys.plan_table$ FOR {statement}

-- name: explained
SELECT statement_id, operation, options, object_name FROM sys.plan_table$
WHERE statement_id LIKE 'petal %' ORDER BY statement_id, id

-- name: forget_plan
DELETE FROM sys.plan_table$ WHERE statement_id LIKE 'petal %'
