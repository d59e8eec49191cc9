-- A small sample is enough: sessions force their plans.
BEGIN;
SET LOCAL default_statistics_target = 10;
ANALYZE {schema}.cf1;
ANALYZE {schema}.cf2;
COMMIT
