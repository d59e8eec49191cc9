-- Every schema with a name that petal uses, and whether it carries petal's mark.
SELECT n.nspname::pg_catalog.text,
       coalesce(pg_catalog.obj_description(n.oid, 'pg_namespace') LIKE '{mark}%', false)
           AND EXISTS (SELECT FROM pg_catalog.pg_class c
                       WHERE c.relnamespace = n.oid AND c.relname = 'petal_meta')
FROM pg_catalog.pg_namespace n
WHERE n.nspname ~ '^petal[1-9][0-9]{0,5}(_loading)?$'
ORDER BY pg_catalog.length(n.nspname), n.nspname
