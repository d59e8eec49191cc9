-- LOOP=server: petal's loop inside the database, an anonymous block. Nothing is stored there and no
-- privilege to create procedures is needed; the block's cursor stays open in the session, so it is
-- parsed once, and anew when another kind of operation comes.
--
-- The driver binds no collections, so arrays come as text of fixed width:
--   ops      25 characters an operation: what it is, its first key (12) and its last (12).
--            S select, C scan, U update in the home schema; s, c, u the same in schema 1.
--            The block has a branch for each kind that came so far, and so names no other table
--   fillers  for each update, in order, its new text: as many characters as columns are changed
--            times width; with a tail only the stamp, the first {stamp_bytes}, which differ
--   tail     what follows the stamp in every column
-- and go as text: ended holds "microseconds,rows;" for each operation that ended, errors a line
-- "position sqlcode message" for each that failed. It ends early when budget_us is over or ended is
-- full. An error after which a session goes on costs its operation; any other ends the loop.
--
-- All of it is ASCII and is cut by bytes: where a character may have several, cutting by characters
-- would count them from the text's beginning each time, within the operation's latency.

-- name: run_batch
DECLARE
    ops CONSTANT VARCHAR2(32767) := :ops;
    fillers CONSTANT VARCHAR2(32767) := :fillers;
    tail CONSTANT VARCHAR2(4000) := :tail;
    width CONSTANT PLS_INTEGER := :width;
    total CONSTANT PLS_INTEGER := :total;
    ended_max CONSTANT PLS_INTEGER := 3960;
    filler_at PLS_INTEGER := 1;
    done PLS_INTEGER := 0;
    kind VARCHAR2(1);
    low NUMBER;
    high NUMBER;
    touched NUMBER;
    ended VARCHAR2(4000);
    errors VARCHAR2(4000);
    begun TIMESTAMP(6) := SYS_EXTRACT_UTC(SYSTIMESTAMP);
    moment TIMESTAMP(6);
    deadline CONSTANT TIMESTAMP(6) := begun + NUMTODSINTERVAL(:budget_us / 1000000, 'SECOND');
    is_fatal BOOLEAN := FALSE;
    {declarations}

    FUNCTION micros(later IN TIMESTAMP, earlier IN TIMESTAMP) RETURN NUMBER IS
        gap CONSTANT INTERVAL DAY(3) TO SECOND(6) := later - earlier;
    BEGIN
        RETURN ROUND(
            ((EXTRACT(DAY FROM gap) * 24 + EXTRACT(HOUR FROM gap)) * 60 + EXTRACT(MINUTE FROM gap))
            * 60000000 + EXTRACT(SECOND FROM gap) * 1000000
        );
    END micros;
BEGIN
    WHILE done < total AND begun < deadline AND NVL(LENGTHB(ended), 0) < ended_max AND NOT is_fatal LOOP
        kind := SUBSTRB(ops, done * 25 + 1, 1);
        low := TO_NUMBER(SUBSTRB(ops, done * 25 + 2, 12));
        high := TO_NUMBER(SUBSTRB(ops, done * 25 + 14, 12));
        touched := 0;
        BEGIN
            CASE kind
                {branches}
            END CASE;
        EXCEPTION
            WHEN OTHERS THEN
                touched := 0;
                is_fatal := SQLCODE NOT IN ({transient})
                    OR NVL(LENGTHB(errors), 0) > 3000;
                errors := errors || TO_CHAR(done + 1) || ' ' || TO_CHAR(SQLCODE) || ' '
                    || SUBSTR(REPLACE(SQLERRM, CHR(10), ' '), 1, 200) || CHR(10);
                ROLLBACK;
        END;
        moment := SYS_EXTRACT_UTC(SYSTIMESTAMP);
        done := done + 1;
        ended := ended || TO_CHAR(micros(moment, begun)) || ',' || TO_CHAR(touched) || ';';
        begun := moment;
    END LOOP;
    :ended := ended;
    :errors := errors;
END;

-- name: select_branch
WHEN '{letter}' THEN
    SELECT {select_hint} COUNT(c2) INTO touched FROM {main} t WHERE custid BETWEEN low AND high;

-- name: scan_branch
WHEN '{letter}' THEN
    SELECT {scan_hint} COUNT(c2) INTO touched FROM {scan} t;

-- name: update_branch
WHEN '{letter}' THEN
    take_texts;
    UPDATE {hint} {main} t SET {set} WHERE custid BETWEEN low AND high;
    touched := SQL%ROWCOUNT;
    {commit};

-- name: take_texts
    {variables}

    PROCEDURE take_texts IS
    BEGIN
        IF tail IS NULL THEN
            {assign_all}
            filler_at := filler_at + {changed} * width;
        ELSE
            {assign_one}
            filler_at := filler_at + {stamp_bytes};
        END IF;
    END take_texts;
