-- A server that has positions and counters of its log for nobody, in the words of Amazon Aurora.
SET allow_system_table_mods = on;
DO $$
DECLARE
    f record;
    refusal text;
BEGIN
    FOR f IN
        SELECT oid::regprocedure AS name, proname, pg_get_function_arguments(oid) AS arguments,
            pg_get_function_result(oid) AS result
        FROM pg_proc WHERE proname IN ('pg_current_wal_insert_lsn', 'pg_control_checkpoint', 'pg_stat_get_wal')
    LOOP
        refusal := CASE f.proname
            WHEN 'pg_stat_get_wal' THEN
                'feature_not_supported USING MESSAGE = ''Function pg_stat_get_wal() is currently not supported for Aurora'''
            ELSE 'object_not_in_prerequisite_state USING MESSAGE = ''wal_level must be set to logical''' END;
        -- The server would call its own function by its number.
        EXECUTE format('ALTER FUNCTION %s RENAME TO %I', f.name, f.proname || '_of_server');
        EXECUTE format('CREATE FUNCTION pg_catalog.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L',
            f.proname, f.arguments, f.result, 'BEGIN RAISE ' || refusal || '; END');
    END LOOP;
    EXECUTE 'CREATE OR REPLACE VIEW pg_catalog.pg_stat_wal AS '
        || replace(pg_get_viewdef('pg_catalog.pg_stat_wal'), 'pg_stat_get_wal_of_server', 'pg_stat_get_wal');
END $$;
