SET LOCAL maintenance_work_mem = '256MB';
CREATE {unique}INDEX cf1_custid ON {schema}.cf1 (custid){tablespace};
