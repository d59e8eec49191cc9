-- The operations of the method, as LOOP=client sends them one by one, and what surrounds a run.

-- name: select
SELECT {select_hint} COUNT(c2) FROM {main} t WHERE custid BETWEEN :1 AND :2

-- name: scan
SELECT {scan_hint} COUNT(c2) FROM {scan} t

-- name: update
UPDATE {hint} {main} t SET {set} WHERE custid BETWEEN :{low} AND :{high}

-- name: rowid_range
-- A range of blocks for petal costs, read by several at a time like a full scan.
SELECT /*+ ROWID(t) NO_PARALLEL(t) NO_RESULT_CACHE */ COUNT(c2) FROM {main} t
WHERE t.ROWID BETWEEN CHARTOROWID(:1) AND CHARTOROWID(:2)

-- name: rows
-- Whole rows, for the verification of a ledger.
SELECT {columns} FROM {main} t WHERE custid BETWEEN :1 AND :2

-- name: commit_and_wait
COMMIT WRITE IMMEDIATE WAIT

-- name: checkpoint
ALTER SYSTEM CHECKPOINT

-- name: switch_log
ALTER SYSTEM SWITCH LOGFILE

-- name: archive_log
-- Of the threads of all instances; NOARCHIVELOG refuses it.
ALTER SYSTEM ARCHIVE LOG CURRENT

-- name: rds_checkpoint
-- Amazon RDS has procedures in place of ALTER SYSTEM, which nobody is granted there.
BEGIN
    rdsadmin.rdsadmin_util.checkpoint;
END;

-- name: rds_switch_log
BEGIN
    rdsadmin.rdsadmin_util.switch_logfile;
END;

-- name: use_hints
-- Autonomous Database ignores hints unless the session says otherwise. Since 18c.
ALTER SESSION SET optimizer_ignore_hints = FALSE

-- name: use_parallel_hints
ALTER SESSION SET optimizer_ignore_parallel_hints = FALSE

-- name: cancel
-- Since 18c.
ALTER SYSTEM CANCEL SQL '{sid}, {serial}{instance}'

-- name: kill
ALTER SYSTEM KILL SESSION '{sid}, {serial}{instance}' IMMEDIATE

-- name: rds_cancel
BEGIN
    rdsadmin.rdsadmin_util.cancel(sid => {sid}, serial => {serial});
END;

-- name: rds_kill
BEGIN
    rdsadmin.rdsadmin_util.kill(sid => {sid}, serial => {serial}, method => 'IMMEDIATE');
END;
