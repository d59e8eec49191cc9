-- petal's loop inside the server: executes the operations that it is handed, in order, each UPDATE
-- with its own commit, and tells when each ended.
--
-- kinds, reaches, untils: of each run of operations that are alike its kind, how far the last key
--   is from the first, and its last operation. 1 SELECT, 2 scan (reach -1), 3 UPDATE of two
--   columns, 4 of all; 10 more: in schema 1.
-- firsts: of each operation its first key.
-- fillers: for an UPDATE the new text, either what all columns begin with (followed by tail) or
--   all columns' texts one after the other, width characters each.
-- counts: rows visited where they are not as many as the keys (reach + 1), NULL elsewhere; it ends
--   with the last such operation.
-- It ends early when budget_us is over. An error that a session survives is noted in errors as
-- 'position SQLSTATE text'; any other ends the loop after it is noted.
--
-- COMMIT may not stand in a block with EXCEPTION, nor may the procedure have SET or SECURITY
-- DEFINER, nor the CALL stand in a transaction. SELECTs that follow each other share one statement,
-- which is prepared once for all of them and reads the clock after each, until the pause; then a commit
-- lets go of the snapshot, so that others' dead rows can be pruned. A call is sized to last about
-- 100 ms: where it has few operations, and slow ones, four of them go in a statement. If it fails, the
-- first of its operations has the error, and those behind it were not done.
CREATE PROCEDURE {schema}.petal_run(
    kinds smallint[], reaches bigint[], untils integer[], firsts bigint[], fillers pg_catalog.text[],
    width integer, tail pg_catalog.text, budget_us bigint,
    INOUT done integer, INOUT started pg_catalog.timestamptz, INOUT ends pg_catalog.timestamptz[],
    INOUT counts bigint[], INOUT errors pg_catalog.text[])
LANGUAGE plpgsql AS $petal$
DECLARE
    total CONSTANT integer := pg_catalog.cardinality(firsts);
    pause_length CONSTANT interval := greatest(interval '10 ms', interval '400 ms' / total);
    run integer := 0;
    kind smallint;
    reach bigint;
    expected bigint;
    upto integer := 0;
    low bigint;
    high bigint;
    touched bigint;
    moments pg_catalog.timestamptz[];
    others bigint[];
    at_once integer := 16;
    filler pg_catalog.text;
    moment pg_catalog.timestamptz;
    deadline pg_catalog.timestamptz;
    pause pg_catalog.timestamptz;
    {declarations}
BEGIN
    started := pg_catalog.clock_timestamp();
    moment := started;
    deadline := started + budget_us * interval '1 microsecond';
    ends := ARRAY[]::pg_catalog.timestamptz[];
    counts := pg_catalog.array_fill(NULL::bigint, ARRAY[1]);
    done := 0;
    <<operations>>
    WHILE done < total AND moment < deadline LOOP
        pause := least(deadline, moment + pause_length);
        BEGIN
            WHILE moment < pause AND done < total LOOP
                IF done = upto THEN
                    run := run + 1;
                    kind := kinds[run];
                    reach := reaches[run];
                    expected := reach + 1;
                    upto := untils[run];
                END IF;
                EXIT WHEN kind NOT IN (1, 2, 11, 12);
                IF kind IN (1, 11) THEN
                    IF kind = 1 THEN
                        {selects_own};
                    ELSE
                        {selects_first};
                    END IF;
                    ends := ends || moments;
                    IF touched > 0 THEN
                        -- Not by a slice, which PL/pgSQL assigns to only from 14 on.
                        FOR place IN 1 .. pg_catalog.cardinality(moments) LOOP
                            counts[done + place] := others[place];
                        END LOOP;
                    END IF;
                    done := pg_catalog.cardinality(ends);
                    moment := ends[done];
                    -- What is left over at the pause has cost a look at the clock each.
                    at_once := 4 * pg_catalog.cardinality(moments);
                ELSE
                    IF kind = 2 THEN
                        SELECT pg_catalog.count(c2) INTO touched FROM {schema}.cf2;
                    ELSE
                        SELECT pg_catalog.count(c2) INTO touched FROM petal1.cf2;
                    END IF;
                    moment := pg_catalog.clock_timestamp();
                    done := done + 1;
                    ends[done] := moment;
                    IF touched <> expected THEN
                        counts[done] := touched;
                    END IF;
                END IF;
            END LOOP;
        EXCEPTION WHEN query_canceled OR OTHERS THEN
            moment := pg_catalog.clock_timestamp();
            done := done + 1;
            ends[done] := moment;
            counts[done] := 0;
            errors := errors || pg_catalog.concat_ws(' ', done, SQLSTATE, SQLERRM);
            EXIT operations WHEN SQLSTATE NOT IN ('40001', '40P01', '55P03');
        END;
        IF done < upto AND kind IN (3, 4, 13, 14) AND moment < deadline THEN
            low := firsts[done + 1];
            high := low + reach;
            filler := fillers[done + 1];
            IF tail IS NOT NULL THEN
                {assign_one}
            ELSE
                {assign_all}
            END IF;
            BEGIN
                IF kind = 3 THEN
                    UPDATE {schema}.cf1 SET {two} WHERE custid BETWEEN low AND high;
                ELSIF kind = 4 THEN
                    UPDATE {schema}.cf1 SET {all} WHERE custid BETWEEN low AND high;
                ELSIF kind = 13 THEN
                    UPDATE petal1.cf1 SET {two} WHERE custid BETWEEN low AND high;
                ELSE
                    UPDATE petal1.cf1 SET {all} WHERE custid BETWEEN low AND high;
                END IF;
                GET DIAGNOSTICS touched = ROW_COUNT;
            EXCEPTION WHEN query_canceled OR OTHERS THEN
                touched := 0;
                errors := errors || pg_catalog.concat_ws(' ', done + 1, SQLSTATE, SQLERRM);
            END;
            COMMIT;
            moment := pg_catalog.clock_timestamp();
            done := done + 1;
            ends[done] := moment;
            IF touched <> expected THEN
                counts[done] := touched;
            END IF;
            EXIT WHEN touched = 0 AND errors IS NOT NULL
                AND pg_catalog.split_part(errors[pg_catalog.cardinality(errors)], ' ',
                    1)::integer = done
                AND pg_catalog.split_part(errors[pg_catalog.cardinality(errors)], ' ', 2)
                    NOT IN ('40001', '40P01', '55P03');
        ELSIF done < total AND moment < deadline THEN
            COMMIT; -- The last one is the CALL's own end.
        END IF;
    END LOOP;
END
$petal$;
