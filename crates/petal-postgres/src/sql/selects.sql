SELECT pg_catalog.array_agg(ended), pg_catalog.array_agg(nullif(rows, expected)),
    pg_catalog.count(nullif(rows, expected))
INTO moments, others, touched
FROM (SELECT pg_catalog.clock_timestamp() AS ended, visited.count AS rows
      FROM (SELECT first_key
            FROM pg_catalog.unnest(firsts[done + 1 : least(upto, done + at_once)])
                WITH ORDINALITY AS keys (first_key, item)
            WHERE item = 1 OR pg_catalog.clock_timestamp() < pause OFFSET 0) AS operations
      CROSS JOIN LATERAL ({select}) AS visited OFFSET 0) AS executed
