-- The role with all its faces, whether it is mighty (code that runs with its rights can do what the
-- server's administrator can), and whom such a role may trust.
WITH me AS (
    SELECT pg_catalog.array_agg(oid) AS roles,
           pg_catalog.bool_or(rolsuper OR rolcreaterole OR rolreplication OR rolbypassrls
               OR EXISTS (SELECT FROM pg_catalog.pg_roles p
                          WHERE p.rolname IN ('pg_execute_server_program',
                                              'pg_read_server_files', 'pg_write_server_files')
                          AND pg_catalog.pg_has_role(r.oid, p.oid, 'MEMBER'))) AS is_mighty
    FROM pg_catalog.pg_roles r WHERE rolname IN (current_user, session_user)),
trusted AS (
    SELECT oid FROM pg_catalog.pg_roles, me WHERE rolsuper OR oid = ANY (me.roles))
