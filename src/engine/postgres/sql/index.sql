-- A small sample is enough: sessions force their plans.
SET LOCAL maintenance_work_mem = '256MB';
SET LOCAL default_statistics_target = 10;
CREATE {unique}INDEX cf1_custid ON {schema}.cf1 (custid){tablespace};
ANALYZE {schema}.cf1;
ANALYZE {schema}.cf2;
