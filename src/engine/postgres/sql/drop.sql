-- What petal made in a schema, and then the schema: nothing of anybody else's (RESTRICT).
DROP TABLE IF EXISTS {schema}.cf1, {schema}.cf2, {schema}.petal_meta;
DO $$ DECLARE routine regprocedure; BEGIN
    FOR routine IN SELECT oid FROM pg_proc WHERE proname = 'petal_run'
        AND pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = '{schema}')
    LOOP EXECUTE 'DROP PROCEDURE ' || routine; END LOOP;
END $$;
DROP SCHEMA IF EXISTS {schema};
