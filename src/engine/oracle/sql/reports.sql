-- The database's own reports of a run. AWR needs the Diagnostics Pack's licence; Statspack does not.

-- name: database_id
SELECT TO_CHAR(dbid) FROM v$database

-- name: awr_snapshot
BEGIN
    :snapshot := TO_CHAR(DBMS_WORKLOAD_REPOSITORY.CREATE_SNAPSHOT);
END;

-- name: awr_text
SELECT output FROM TABLE(DBMS_WORKLOAD_REPOSITORY.AWR_REPORT_TEXT(:1, :2, :3, :4))

-- name: awr_html
SELECT output FROM TABLE(DBMS_WORKLOAD_REPOSITORY.AWR_REPORT_HTML(:1, :2, :3, :4))

-- name: awr_global_text
SELECT output FROM TABLE(DBMS_WORKLOAD_REPOSITORY.AWR_GLOBAL_REPORT_TEXT(:1, :2, :3, :4))

-- name: awr_global_html
SELECT output FROM TABLE(DBMS_WORKLOAD_REPOSITORY.AWR_GLOBAL_REPORT_HTML(:1, :2, :3, :4))

-- name: statspack_snapshot
-- Level 7: with the segments.
BEGIN
    :snapshot := TO_CHAR(perfstat.statspack.snap(i_snap_level => 7));
END;
