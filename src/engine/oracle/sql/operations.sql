-- The operations of the method, as LOOP=client sends them one by one, and what surrounds a run.

-- name: select
SELECT {hint} COUNT(c2) FROM {main} t WHERE custid BETWEEN :1 AND :2

-- name: scan
SELECT COUNT(c2) FROM {scan}

-- name: update
UPDATE {hint} {main} t SET {set} WHERE custid BETWEEN :{low} AND :{high}

-- name: commit_and_wait
COMMIT WRITE IMMEDIATE WAIT

-- name: checkpoint
ALTER SYSTEM CHECKPOINT

-- name: switch_log
ALTER SYSTEM SWITCH LOGFILE

-- name: cancel
ALTER SYSTEM CANCEL SQL '{sid}, {serial}{instance}'
