SELECT array_agg(ended), array_agg(nullif(rows, expected)), count(nullif(rows, expected))
INTO moments, others, touched
FROM (SELECT clock_timestamp() AS ended, visited.count AS rows
      FROM (SELECT first_key
            FROM unnest(firsts[done + 1 : least(upto, done + at_once)])
                WITH ORDINALITY AS keys (first_key, item)
            WHERE item = 1 OR clock_timestamp() < pause OFFSET 0) AS operations
      CROSS JOIN LATERAL ({select}) AS visited OFFSET 0) AS executed
