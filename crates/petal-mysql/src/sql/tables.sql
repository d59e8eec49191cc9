-- One schema of petal's data, before it is filled; {schema} is its name while it is loaded. {columns}
-- are c2 to c20; c20 is wider than the others for the filler rows, which the load deletes again.
-- PAGE_COMPRESSED=0: MariaDB may compress pages by default, and a device then reads fewer bytes than the
-- database. MERGE_THRESHOLD=1: pages with one row are not merged when their fillers go.
CREATE TABLE {schema}_meta (name VARCHAR(64) PRIMARY KEY, value VARCHAR(255) NOT NULL)
    ENGINE=InnoDB DEFAULT CHARSET=latin1 COMMENT='{mark}';
CREATE TABLE {schema}_cf1 (pos BIGINT UNSIGNED NOT NULL PRIMARY KEY, custid BIGINT UNSIGNED, {columns})
    ENGINE=InnoDB DEFAULT CHARSET=latin1 ROW_FORMAT=DYNAMIC /*M! PAGE_COMPRESSED=0 */
    STATS_PERSISTENT=1 STATS_AUTO_RECALC=0 COMMENT='{mark}, MERGE_THRESHOLD=1';
CREATE TABLE {schema}_cf2 (pos BIGINT UNSIGNED NOT NULL PRIMARY KEY, custid BIGINT UNSIGNED, {columns})
    ENGINE=InnoDB DEFAULT CHARSET=latin1 ROW_FORMAT=DYNAMIC /*M! PAGE_COMPRESSED=0 */
    STATS_PERSISTENT=1 STATS_AUTO_RECALC=0 COMMENT='{mark}, MERGE_THRESHOLD=1'
