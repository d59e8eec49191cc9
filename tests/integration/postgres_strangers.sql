-- A hostile twin, found first by the database's search_path, of every function, aggregate, operator,
-- type and relation of PostgreSQL's own, as far as anybody may make one. Each counts that it was
-- entered, in a sequence, which no rollback takes back. Casts need a type of the maker's own.
SET search_path = pg_catalog;
SET check_function_bodies = off;
CREATE SCHEMA hostile;
CREATE SEQUENCE public.entered;
CREATE FUNCTION hostile.enter(what text) RETURNS boolean LANGUAGE plpgsql AS
    $$BEGIN PERFORM pg_catalog.nextval('public.entered'); RAISE EXCEPTION 'entered %', what; END$$;
CREATE PROCEDURE public.make(VARIADIC statements text[]) LANGUAGE plpgsql AS $make$
DECLARE statement text;
BEGIN
    FOREACH statement IN ARRAY statements LOOP
        EXECUTE statement;
    END LOOP;
EXCEPTION WHEN OTHERS THEN NULL; -- Nobody can make it.
END $make$;
CREATE FUNCTION public.body(what text) RETURNS text LANGUAGE sql AS $$
    SELECT 'LANGUAGE plpgsql AS '
        || quote_literal('BEGIN PERFORM hostile.enter(' || quote_literal(what) || '); END') $$;
DO $plant$
DECLARE
    found record;
    simple text[] := ARRAY['text', 'bigint', 'integer', 'smallint', 'numeric', 'boolean', 'float8',
        'name', 'timestamptz', 'json', '"char"', 'oid'];
    one text;
BEGIN
    FOR found IN
        SELECT proname AS name, oidvectortypes(proargtypes) AS given,
               CASE WHEN proretset THEN 'SETOF ' ELSE '' END || prorettype::regtype AS gives
        FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f'
        AND prorettype::regtype::text NOT IN ('internal', 'trigger', 'event_trigger', 'cstring')
        AND oidvectortypes(proargtypes) !~ '\m(internal|cstring)\M'
    LOOP
        -- Nobody may make one of "any" types; one of each is as good.
        FOREACH one IN ARRAY CASE WHEN found.given ~ '"any"' THEN simple ELSE ARRAY[''] END LOOP
            CALL public.make(format('CREATE FUNCTION hostile.%I(%s) RETURNS %s %s',
                found.name, replace(found.given, '"any"', one), found.gives,
                public.body(found.name)));
        END LOOP;
    END LOOP;
    FOREACH one IN ARRAY simple LOOP
        EXECUTE format('CREATE FUNCTION hostile.step(bigint, %s) RETURNS bigint %s',
            one, public.body('an aggregate of ' || one));
        FOR found IN SELECT DISTINCT proname AS name FROM pg_proc
            WHERE prokind = 'a' AND pronamespace = 'pg_catalog'::regnamespace
        LOOP
            CALL public.make(format(
                'CREATE AGGREGATE hostile.%I(%s) (sfunc = hostile.step, stype = int8, initcond = 0)',
                found.name, one));
        END LOOP;
    END LOOP;
    FOR found IN
        SELECT oid, oprname AS name, oprleft::regtype AS l, oprright::regtype AS r,
               oprresult::regtype AS gives
        FROM pg_operator WHERE oprnamespace = 'pg_catalog'::regnamespace AND oprleft <> 0
    LOOP
        CALL public.make(
            format('CREATE FUNCTION hostile.op_%s(%s, %s) RETURNS %s %s', found.oid, found.l,
                found.r, found.gives, public.body('operator ' || found.name)),
            format('CREATE OPERATOR hostile.%s (FUNCTION = hostile.op_%s, LEFTARG = %s, RIGHTARG = %s)',
                found.name, found.oid, found.l, found.r));
    END LOOP;
    FOR found IN
        SELECT typname AS name FROM pg_type
        WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype = 'b' AND typname !~ '^_'
    LOOP
        CALL public.make(format('CREATE DOMAIN hostile.%I AS pg_catalog.%I CHECK (hostile.enter(%L))',
            found.name, found.name, 'type ' || found.name));
    END LOOP;
    FOR found IN SELECT relname AS name FROM pg_class
        WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v')
    LOOP
        CALL public.make(format(
            'CREATE VIEW hostile.%I AS SELECT * FROM pg_catalog.%I WHERE hostile.enter(%L)',
            found.name, found.name, 'relation ' || found.name));
    END LOOP;
END $plant$;
CREATE FUNCTION hostile.none(bigint) RETURNS bigint LANGUAGE plpgsql AS
    'BEGIN PERFORM hostile.enter(''count(*)''); END';
CREATE AGGREGATE hostile.count(*) (sfunc = hostile.none, stype = int8, initcond = 0);
CREATE FUNCTION hostile.two(bigint, text, text) RETURNS bigint LANGUAGE plpgsql AS
    'BEGIN PERFORM hostile.enter(''string_agg''); END';
CREATE AGGREGATE hostile.string_agg(text, text)
    (sfunc = hostile.two, stype = int8, initcond = 0);
