-- The database's own reports of a run. AWR needs the Diagnostics Pack's licence; Statspack does not.

-- name: database_id
-- In a pluggable database its own, which its snapshots are kept under; elsewhere both are the same.
SELECT TO_CHAR(NVL(NULLIF(con_dbid, 0), dbid)) FROM sys.v_$database

-- name: awr_snapshot
BEGIN
    :snapshot := TO_CHAR(SYS.DBMS_WORKLOAD_REPOSITORY.CREATE_SNAPSHOT);
END;

-- name: awr_text
SELECT output FROM TABLE(SYS.DBMS_WORKLOAD_REPOSITORY.AWR_REPORT_TEXT(:1, :2, :3, :4))

-- name: awr_html
SELECT output FROM TABLE(SYS.DBMS_WORKLOAD_REPOSITORY.AWR_REPORT_HTML(:1, :2, :3, :4))

-- name: awr_global_text
SELECT output FROM TABLE(SYS.DBMS_WORKLOAD_REPOSITORY.AWR_GLOBAL_REPORT_TEXT(:1, :2, :3, :4))

-- name: awr_global_html
SELECT output FROM TABLE(SYS.DBMS_WORKLOAD_REPOSITORY.AWR_GLOBAL_REPORT_HTML(:1, :2, :3, :4))

-- name: statspack_snapshot
-- Level 7: with the segments.
BEGIN
    :snapshot := TO_CHAR(perfstat.statspack.snap(i_snap_level => 7));
END;

-- name: statspack_bounds
-- What Statspack's own report is made of: the tables of its owner, between two snapshots.
SELECT TO_CHAR(s.snap_id), TO_CHAR(s.dbid), TO_CHAR(s.instance_number), d.db_name, d.instance_name,
    d.host_name, d.version, d.parallel,
    TO_CHAR(s.startup_time, 'DD-Mon-RR HH24:MI:SS', 'NLS_DATE_LANGUAGE=AMERICAN'),
    TO_CHAR(s.snap_time, 'DD-Mon-RR HH24:MI:SS', 'NLS_DATE_LANGUAGE=AMERICAN'),
    TO_CHAR(ROUND((s.snap_time - DATE '2000-01-01') * 86400))
FROM perfstat.stats$snapshot s
JOIN perfstat.stats$database_instance d ON d.dbid = s.dbid
    AND d.instance_number = s.instance_number AND d.startup_time = s.startup_time
WHERE s.snap_id IN (:1, :2)
ORDER BY s.snap_id

-- name: statspack_statistics
SELECT e.name, TO_CHAR(e.value - b.value)
FROM perfstat.stats$sysstat b
JOIN perfstat.stats$sysstat e ON e.dbid = b.dbid AND e.instance_number = b.instance_number
    AND e.name = b.name
WHERE b.snap_id = :1 AND e.snap_id = :2 AND e.name IN (
    'session logical reads', 'db block changes', 'physical reads', 'physical reads cache',
    'physical reads cache prefetch', 'physical reads direct', 'physical read IO requests',
    'physical read bytes', 'physical read total IO requests', 'physical read total bytes',
    'physical writes', 'physical write IO requests', 'physical write bytes',
    'physical write total IO requests', 'physical write total bytes', 'redo size', 'redo writes',
    'redo synch writes', 'user calls', 'user commits', 'user rollbacks', 'execute count',
    'parse count (total)', 'parse count (hard)', 'logons cumulative', 'table fetch continued row'
)
ORDER BY e.name

-- name: statspack_events
-- All processes, then those of sessions alone. What Statspack itself takes for idle is left out.
SELECT e.event, TO_CHAR(e.total_waits - NVL(b.total_waits, 0)),
    TO_CHAR(e.time_waited_micro - NVL(b.time_waited_micro, 0)),
    TO_CHAR(e.total_waits_fg - NVL(b.total_waits_fg, 0)),
    TO_CHAR(e.time_waited_micro_fg - NVL(b.time_waited_micro_fg, 0))
FROM perfstat.stats$system_event e
LEFT JOIN perfstat.stats$system_event b ON b.snap_id = :1 AND b.dbid = e.dbid
    AND b.instance_number = e.instance_number AND b.event = e.event
WHERE e.snap_id = :2 AND e.event NOT IN (SELECT i.event FROM perfstat.stats$idle_event i)

-- name: statspack_times
SELECT n.stat_name, TO_CHAR(e.value - b.value)
FROM perfstat.stats$sys_time_model b
JOIN perfstat.stats$sys_time_model e ON e.dbid = b.dbid
    AND e.instance_number = b.instance_number AND e.stat_id = b.stat_id
JOIN perfstat.stats$time_model_statname n ON n.stat_id = e.stat_id
WHERE b.snap_id = :1 AND e.snap_id = :2 AND n.stat_name IN ('DB time', 'DB CPU')

-- name: statspack_os
SELECT n.stat_name, TO_CHAR(e.value - b.value)
FROM perfstat.stats$osstat b
JOIN perfstat.stats$osstat e ON e.dbid = b.dbid AND e.instance_number = b.instance_number
    AND e.osstat_id = b.osstat_id
JOIN perfstat.stats$osstatname n ON n.osstat_id = e.osstat_id
WHERE b.snap_id = :1 AND e.snap_id = :2
    AND n.stat_name IN ('BUSY_TIME', 'IDLE_TIME', 'IOWAIT_TIME')
