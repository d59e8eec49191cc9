-- One schema of petal's data, before it is filled. {schema} is its name while it is loaded;
-- {columns} are c2 to c20, {plain} keeps each of them inside its row, as it was written.
CREATE SCHEMA {schema};
COMMENT ON SCHEMA {schema} IS '{mark}';
CREATE TABLE {schema}.petal_meta (key pg_catalog.text PRIMARY KEY{index_tablespace}, value pg_catalog.text NOT NULL){tablespace};

-- The fill factor leaves a page with one row as full, and room in it for two more versions.
CREATE TABLE {schema}.cf1 (custid bigint, {columns})
    WITH (fillfactor = 10, autovacuum_enabled = off){tablespace};
CREATE TABLE {schema}.cf2 (custid bigint, {columns})
    WITH (fillfactor = 10, autovacuum_enabled = off){tablespace};
ALTER TABLE {schema}.cf1 {plain};
ALTER TABLE {schema}.cf2 {plain};
