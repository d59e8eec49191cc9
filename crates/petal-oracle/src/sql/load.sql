-- What a load sends: tables, one row per block, index, statistics, proof, mark.
--
-- petal's schemas are sets of tables of the user who connects, petal1_cf1 to petalN_cf1 and so on:
-- no users are made, so there are no passwords to keep, and no privilege on others' data is needed.

-- name: create_meta
CREATE TABLE petal_meta (
    schema_number NUMBER(6) NOT NULL,
    key VARCHAR2(30) NOT NULL,
    value VARCHAR2(400),
    CONSTRAINT petal_meta_pk PRIMARY KEY (schema_number, key)
        USING INDEX TABLESPACE {tablespace}
) TABLESPACE {tablespace}

-- name: comment_meta
COMMENT ON TABLE petal_meta IS '{mark}'

-- name: lock_for_run
-- Held until its session ends: other runs share it, setup and drop do not get theirs.
LOCK TABLE petal_meta IN ROW SHARE MODE

-- name: lock_alone
LOCK TABLE petal_meta IN EXCLUSIVE MODE NOWAIT

-- name: lock_rows
-- UPDATEs of others wait until its session ends.
LOCK TABLE {table} IN EXCLUSIVE MODE

-- name: insert_meta
INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3)

-- name: delete_meta
DELETE FROM petal_meta WHERE schema_number = :1

-- name: create_table
-- PCTFREE makes a block with one row full, and leaves room in it for the row to stay.
CREATE TABLE {table} (custid NUMBER(12), {columns})
PCTFREE 99 {logging} NOCOMPRESS TABLESPACE {tablespace}{storage}

-- name: comment_table
COMMENT ON TABLE {table} IS '{mark}'

-- name: minimize
-- After the first row: no block of the table takes more rows than that one did.
ALTER TABLE {table} MINIMIZE RECORDS_PER_BLOCK

-- name: insert_rows
-- The first row, and rows of several sessions: direct path would lock the table for one of them.
INSERT INTO {table} VALUES ({binds})

-- name: insert_direct
-- Direct path: blocks are made whole and written past the buffer cache.
INSERT /*+ APPEND_VALUES */ INTO {table} VALUES ({binds})

-- name: copy_rows
-- All rows of another schema's table but the first one, which is there. Direct path.
INSERT /*+ APPEND */ INTO {table}
SELECT /*+ FULL(t) NO_PARALLEL(t) */ * FROM {source} t WHERE custid <> :1

-- name: create_index
CREATE {unique}INDEX {table}_custid ON {table} (custid) {logging} TABLESPACE {tablespace}{storage}

-- name: logging
ALTER TABLE {table} LOGGING

-- name: index_logging
ALTER INDEX {table}_custid LOGGING

-- name: gather
-- What the plan needs: the rows and the key's range, of a hundredth of the blocks. The index got its
-- own when it was made. Locked, so that no job changes plans between two runs.
BEGIN
    SYS.DBMS_STATS.GATHER_TABLE_STATS(
        ownname => USER, tabname => UPPER('{table}'), method_opt => 'FOR COLUMNS SIZE 1 custid',
        estimate_percent => 1, block_sample => TRUE, cascade => FALSE, no_invalidate => FALSE
    );
    SYS.DBMS_STATS.LOCK_TABLE_STATS(ownname => USER, tabname => UPPER('{table}'));
END;

-- name: buffered_scans
-- Full scans of this session go through the buffer cache, so that the commits that they note in each
-- block reach the disk. A direct read notes them in its own memory, and the first run would write.
ALTER SESSION SET "_serial_direct_read" = NEVER

-- name: clean
-- Visits each block of a table once.
SELECT /*+ FULL(t) NO_PARALLEL(t) NO_RESULT_CACHE */ COUNT(c2) FROM {table} t

-- name: placement
-- A ROWID is a block and a slot in that block's row directory, and no two rows have the same one.
-- Slots count from 0: where all rows are in slot 0, no two are in one block. So the largest slot
-- proves it, and nothing is grouped or sorted. Blocks are those with a row in slot 0, which are all
-- of them as long as no row was deleted; petal deletes none. The whole table is read.
SELECT TO_CHAR(COUNT(*)), TO_CHAR(COUNT(DECODE(slot, 0, 0))), TO_CHAR(NVL(MAX(slot) + 1, 0))
FROM (
    SELECT /*+ FULL(t) NO_RESULT_CACHE */ SYS.DBMS_ROWID.ROWID_ROW_NUMBER(t.ROWID) AS slot
    FROM {table} t
)

-- name: create_tablespace
-- Never sent: petal shows it to a DBA if a tablespace does not serve.
CREATE BIGFILE TABLESPACE {tablespace} DATAFILE{file} SIZE {size} AUTOEXTEND ON NEXT 1G MAXSIZE UNLIMITED
{block_size}EXTENT MANAGEMENT LOCAL AUTOALLOCATE SEGMENT SPACE MANAGEMENT AUTO

-- name: drop_table
DROP TABLE {table} PURGE
