-- Every schema with a name that petal uses, and whether it carries petal's mark.
SELECT n.nspname::text,
       coalesce(obj_description(n.oid, 'pg_namespace') LIKE '{mark}%', false)
           AND to_regclass(quote_ident(n.nspname) || '.petal_meta') IS NOT NULL
FROM pg_namespace n
WHERE n.nspname ~ '^petal[1-9][0-9]{0,5}(_loading)?$'
ORDER BY length(n.nspname), n.nspname
