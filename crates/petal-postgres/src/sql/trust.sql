-- Objects in a schema of petal's with which others' code would run with this role's rights, now or
-- later in the run: kind, object and owner. An owner must be the role itself or a superuser; for a role
-- that is not mighty also a role that it is a member of.
{me},
held AS (
    SELECT c.* FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname IN ('cf1', 'cf2', 'petal_meta')),
owned AS (
    SELECT 'schema' AS kind, n.nspname::pg_catalog.text AS name, n.nspowner AS owner
    FROM pg_catalog.pg_namespace n WHERE n.nspname = $1
    UNION ALL SELECT 'table', $1 || '.' || relname, relowner FROM held)
SELECT 'owner', kind || ' ' || name, pg_catalog.pg_get_userbyid(owner)::pg_catalog.text
FROM owned, me WHERE owner NOT IN (SELECT oid FROM trusted)
AND (me.is_mighty OR NOT pg_catalog.pg_has_role(owner, 'MEMBER'))
UNION ALL
SELECT 'content', relname || what, NULL FROM held CROSS JOIN LATERAL (
    SELECT ' is no plain table (relkind ' || relkind::pg_catalog.text || ')' AS what
    WHERE relkind <> 'r'
    UNION ALL SELECT ' is a partition or a typed table' WHERE relispartition OR reloftype <> 0
    UNION ALL SELECT ' has row security' WHERE relrowsecurity
    UNION ALL SELECT ' has trigger ' || tgname FROM pg_catalog.pg_trigger
    JOIN pg_catalog.pg_proc p ON p.oid = tgfoid
    WHERE tgrelid = held.oid AND NOT tgisinternal
    AND p.proowner NOT IN (SELECT oid FROM trusted)
    UNION ALL SELECT ' has rule ' || rulename FROM pg_catalog.pg_rewrite WHERE ev_class = held.oid
    UNION ALL SELECT ' has check constraint ' || conname FROM pg_catalog.pg_constraint
    WHERE conrelid = held.oid AND contype IN ('c', 'x')
    UNION ALL SELECT ' inherits or is inherited' FROM pg_catalog.pg_inherits
    WHERE held.oid IN (inhrelid, inhparent)
    UNION ALL SELECT ' has column ' || attname || ' of a type that petal does not make'
    FROM pg_catalog.pg_attribute
    WHERE attrelid = held.oid AND attnum > 0 AND NOT attisdropped
    AND (attgenerated <> '' OR atttypid NOT IN ('pg_catalog.int8'::pg_catalog.regtype,
                                                'pg_catalog.text'::pg_catalog.regtype))
    UNION ALL SELECT ' has index ' || i.relname || ' with an expression or a condition'
    FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
    WHERE x.indrelid = held.oid AND (x.indexprs IS NOT NULL OR x.indpred IS NOT NULL)
    UNION ALL SELECT ' lets role ' || CASE grantee WHEN 0 THEN 'PUBLIC'
                     ELSE pg_catalog.pg_get_userbyid(grantee)::pg_catalog.text END || ' create triggers'
    FROM pg_catalog.aclexplode(held.relacl)
    WHERE privilege_type = 'TRIGGER' AND grantee <> held.relowner
    AND grantee NOT IN (SELECT oid FROM trusted)) AS found
