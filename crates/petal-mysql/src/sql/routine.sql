-- petal's loop inside the server: executes the operations that it is handed, in order, each UPDATE
-- with its own commit (autocommit), and tells when each ended.
--
-- runs: of each run of operations that are alike 26 digits: kind (2), how far the last key is from
--   the first (12), the run's last operation (12). 1 SELECT, 2 scan, 3 UPDATE of two columns, 4 of
--   all; 10 more: in schema 1.
-- firsts: of each operation its first key, 12 digits.
-- fillers: for each UPDATE the new text of its columns, width characters each, one after the other;
--   where step is 0 one text for all of them. They follow each other.
-- @petal_ends: of each operation that ended the microseconds since the beginning, and behind a slash
--   the rows visited where they are not as many as the keys. @petal_errors: 'position code text'
--   lines. Both stay readable when the call itself is killed.
-- An error that a session survives is noted; any other ends the loop after it is noted.
CREATE PROCEDURE {schema}_run(
    IN runs LONGTEXT CHARACTER SET latin1, IN firsts LONGTEXT CHARACTER SET latin1,
    IN fillers LONGTEXT CHARACTER SET latin1, IN width INT, IN step INT, IN budget_us BIGINT)
    MODIFIES SQL DATA SQL SECURITY INVOKER COMMENT '{comment}'
BEGIN
    DECLARE total INT DEFAULT LENGTH(firsts) DIV 12;
    DECLARE done, run, upto, filled, kind INT DEFAULT 0;
    DECLARE reach, expected, low, touched, code BIGINT DEFAULT 0;
    DECLARE words TEXT CHARACTER SET utf8mb4;
    DECLARE started, moment, deadline DATETIME(6) DEFAULT SYSDATE(6);
    {declarations}
    DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN
        GET DIAGNOSTICS CONDITION 1 code = MYSQL_ERRNO, words = MESSAGE_TEXT;
        SET touched = 0;
        SET @petal_errors = CONCAT(@petal_errors, done + 1, ' ', code, ' ', words, '\n');
        IF code NOT IN (1205, 1213, 1020, 3101)
            AND NOT (code = 1180 AND words LIKE '%error 149 %') THEN
            SET total = 0, upto = 0;
        END IF;
    END;
    SET @petal_ends = '', @petal_errors = '';
    SET deadline = started + INTERVAL budget_us MICROSECOND;
    WHILE done < total AND moment < deadline DO
        SET kind = SUBSTR(runs, 1 + run * 26, 2), reach = SUBSTR(runs, 3 + run * 26, 12),
            upto = SUBSTR(runs, 15 + run * 26, 12), run = run + 1, expected = reach + 1;
        IF kind = 1 THEN
            -- The hot loop: every statement in it costs each SELECT. The clock is read after the
            -- SELECT: within it, it would be read at the first row.
            WHILE done < upto AND moment < deadline DO
                SET low = SUBSTR(firsts, 1 + done * 12, 12);
                {select_own};
                SET moment = SYSDATE(6), done = done + 1,
                    @petal_ends = CONCAT(@petal_ends, {ended});
            END WHILE;
        ELSE
            WHILE done < upto AND moment < deadline DO
                SET low = SUBSTR(firsts, 1 + done * 12, 12);
                IF kind = 11 THEN
                    {select_first};
                ELSEIF kind = 2 THEN
                    SELECT COUNT(c2) INTO touched FROM {schema}_cf2;
                ELSEIF kind = 12 THEN
                    SELECT COUNT(c2) INTO touched FROM petal1_cf2;
                ELSE
                    {assign}
                    CASE kind
                        WHEN 3 THEN {update_own_two}; SET touched = GREATEST(ROW_COUNT(), 0);
                        WHEN 4 THEN {update_own_all}; SET touched = GREATEST(ROW_COUNT(), 0);
                        WHEN 13 THEN {update_first_two}; SET touched = GREATEST(ROW_COUNT(), 0);
                        ELSE {update_first_all}; SET touched = GREATEST(ROW_COUNT(), 0);
                    END CASE;
                END IF;
                SET moment = SYSDATE(6), done = done + 1,
                    @petal_ends = CONCAT(@petal_ends, {ended});
            END WHILE;
        END IF;
    END WHILE;
    SELECT @petal_ends, @petal_errors;
END
