-- What the instances count, cumulative since they started. GV$ views: one row for each instance.

-- name: statistics
SELECT TO_CHAR(inst_id), name, TO_CHAR(value) FROM sys.gv_$sysstat
WHERE name IN (
    'session logical reads', 'consistent gets', 'db block gets', 'physical reads',
    'physical reads cache', 'physical reads cache prefetch', 'physical reads direct',
    'physical read IO requests', 'physical read bytes', 'physical read total IO requests',
    'physical read total bytes', 'physical read total multi block requests', 'physical writes',
    'physical writes from cache', 'physical writes direct', 'physical write IO requests',
    'physical write bytes', 'physical write total IO requests', 'physical write total bytes',
    'redo size', 'redo entries', 'redo writes', 'redo blocks written', 'redo wastage',
    'redo write time', 'redo synch writes', 'redo synch time (usec)', 'redo log space requests',
    'user commits', 'user rollbacks', 'user calls', 'execute count', 'recursive calls',
    'parse count (total)', 'parse count (hard)', 'background checkpoints started',
    'background checkpoints completed', 'DBWR checkpoint buffers written',
    'DBWR undo block writes', 'free buffer requested', 'table fetch by rowid',
    'table fetch continued row', 'table scans (direct read)', 'CPU used by this session',
    'SQL*Net roundtrips to/from client', 'cell flash cache read hits',
    'gc cr blocks received', 'gc current blocks received',
    'cleanouts only - consistent read gets', 'immediate (CR) block cleanout applications'
)

-- name: events
SELECT TO_CHAR(inst_id), event, wait_class, TO_CHAR(total_waits), TO_CHAR(time_waited_micro),
    TO_CHAR(total_waits_fg), TO_CHAR(time_waited_micro_fg)
FROM sys.gv_$system_event
WHERE wait_class <> 'Idle'

-- name: time_model
SELECT TO_CHAR(inst_id), stat_name, TO_CHAR(value) FROM sys.gv_$sys_time_model
WHERE stat_name IN ('DB time', 'DB CPU', 'background cpu time')

-- name: histograms
-- Exadata's reads have names of their own, by where the block was: flash cache, RDMA, PMEM.
SELECT TO_CHAR(inst_id), event, TO_CHAR(wait_time_micro), TO_CHAR(wait_count)
FROM sys.gv_$event_histogram_micro
WHERE event IN (
    'db file sequential read', 'db file parallel read', 'db file scattered read',
    'direct path read', 'log file sync', 'log file parallel write', 'db file parallel write'
) OR event LIKE 'cell single block physical read%'

-- name: functions
SELECT TO_CHAR(inst_id), function_name, TO_CHAR(small_read_reqs), TO_CHAR(small_read_megabytes),
    TO_CHAR(large_read_reqs), TO_CHAR(large_read_megabytes), TO_CHAR(small_write_reqs),
    TO_CHAR(small_write_megabytes), TO_CHAR(large_write_reqs), TO_CHAR(large_write_megabytes)
FROM sys.gv_$iostat_function

-- name: os
SELECT TO_CHAR(inst_id), stat_name, TO_CHAR(value) FROM sys.gv_$osstat
WHERE cumulative = 'YES'

-- name: log_switches
SELECT TO_CHAR(i.inst_id), TO_CHAR(MAX(l.sequence#))
FROM sys.v_$log l
JOIN sys.gv_$instance i ON i.thread# = l.thread#
GROUP BY i.inst_id
