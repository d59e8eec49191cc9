-- Every schema with a name that petal uses, and whether it carries petal's mark.
SELECT n.nspname::text,
       coalesce(obj_description(n.oid, 'pg_namespace') LIKE '{mark}%', false)
           AND EXISTS (SELECT FROM pg_class c
                       WHERE c.relnamespace = n.oid AND c.relname = 'petal_meta')
FROM pg_namespace n
WHERE n.nspname ~ '^petal[1-9][0-9]{0,5}(_loading)?$'
ORDER BY length(n.nspname), n.nspname
