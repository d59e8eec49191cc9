-- The routines in a schema by the name of petal's: their comment, and whether each is this petal's.
-- Its owner is the role or a superuser, or the schema's owner unless the role is mighty.
{me}
SELECT pg_catalog.obj_description(p.oid, 'pg_proc'),
       p.prosrc = $2 AND p.prokind = 'p' AND NOT p.prosecdef AND p.proconfig IS NULL
       AND p.prolang = (SELECT oid FROM pg_catalog.pg_language WHERE lanname = 'plpgsql')
       AND NOT EXISTS (SELECT FROM pg_catalog.unnest(p.proargtypes) AS given (type)
                       JOIN pg_catalog.pg_type t ON t.oid = given.type
                       WHERE t.typnamespace <> 'pg_catalog'::pg_catalog.regnamespace)
       AND (p.proowner IN (SELECT oid FROM trusted)
            OR p.proowner = n.nspowner AND NOT me.is_mighty)
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace, me
WHERE p.proname = 'petal_run' AND n.nspname = $1
