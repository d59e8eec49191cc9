-- One schema of petal's data in RocksDB, before it is filled; {schema} is its name while it is loaded.
-- {columns} are c2 to c20 and the padding that makes a row as long as a data block. All rows of petal's
-- are in a column family of their own: each data block of its files holds one version of a row.
CREATE TABLE {schema}_meta (name VARCHAR(64) PRIMARY KEY, value VARCHAR(255) NOT NULL)
    ENGINE=ROCKSDB DEFAULT CHARSET=latin1 COLLATE=latin1_bin COMMENT='{mark}';
CREATE TABLE {schema}_cf1 (pos BIGINT UNSIGNED NOT NULL, custid BIGINT UNSIGNED, {columns},
    PRIMARY KEY (pos) COMMENT 'petal_main')
    ENGINE=ROCKSDB DEFAULT CHARSET=latin1 COLLATE=latin1_bin COMMENT='{mark}';
CREATE TABLE {schema}_cf2 (pos BIGINT UNSIGNED NOT NULL, custid BIGINT UNSIGNED, {columns},
    PRIMARY KEY (pos) COMMENT 'petal_main')
    ENGINE=ROCKSDB DEFAULT CHARSET=latin1 COLLATE=latin1_bin COMMENT='{mark}'
