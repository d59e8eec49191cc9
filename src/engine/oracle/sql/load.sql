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
)

-- name: comment_meta
COMMENT ON TABLE petal_meta IS '{mark}'

-- name: lock_for_run
-- Held until its session ends: other runs share it, setup and drop do not get theirs.
LOCK TABLE petal_meta IN ROW SHARE MODE

-- name: lock_alone
LOCK TABLE petal_meta IN EXCLUSIVE MODE NOWAIT

-- name: insert_meta
INSERT INTO petal_meta (schema_number, key, value) VALUES (:1, :2, :3)

-- name: delete_meta
DELETE FROM petal_meta WHERE schema_number = :1

-- name: create_table
-- PCTFREE makes a block with one row full, and leaves room in it for the row to stay.
CREATE TABLE {table} (custid NUMBER(12), {columns})
PCTFREE 99 NOLOGGING NOCOMPRESS{tablespace}

-- name: comment_table
COMMENT ON TABLE {table} IS '{mark}'

-- name: minimize
-- After the first row: no block of the table takes more rows than that one did.
ALTER TABLE {table} MINIMIZE RECORDS_PER_BLOCK

-- name: insert_first
INSERT INTO {table} VALUES ({binds})

-- name: insert_rows
-- Direct path: blocks are made whole and written past the buffer cache.
INSERT /*+ APPEND_VALUES */ INTO {table} VALUES ({binds})

-- name: create_index
CREATE {unique}INDEX {table}_custid ON {table} (custid) NOLOGGING{tablespace}

-- name: logging
ALTER TABLE {table} LOGGING

-- name: index_logging
ALTER INDEX {table}_custid LOGGING

-- name: gather
-- Locked, so that no job changes plans between two runs.
BEGIN
    DBMS_STATS.GATHER_TABLE_STATS(ownname => USER, tabname => UPPER('{table}'), cascade => TRUE);
    DBMS_STATS.LOCK_TABLE_STATS(ownname => USER, tabname => UPPER('{table}'));
END;

-- name: placement
-- How many rows lie in each block, by their own physical addresses. The whole table is read.
SELECT TO_CHAR(NVL(SUM(rows_in_block), 0)), TO_CHAR(COUNT(*)), TO_CHAR(NVL(MAX(rows_in_block), 0))
FROM (
    SELECT COUNT(*) AS rows_in_block
    FROM (
        SELECT /*+ FULL(t) */
            DBMS_ROWID.ROWID_RELATIVE_FNO(t.ROWID) AS file_number,
            DBMS_ROWID.ROWID_BLOCK_NUMBER(t.ROWID) AS block_number
        FROM {table} t
    )
    GROUP BY file_number, block_number
)

-- name: drop_table
DROP TABLE {table} PURGE
