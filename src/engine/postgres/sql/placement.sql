-- How many rows lie in each block of the main table, by their own physical addresses.
SELECT coalesce(sum(rows_in_block), 0)::bigint, count(*)::bigint, coalesce(max(rows_in_block), 0)::bigint
FROM (SELECT count(*) AS rows_in_block
      FROM {schema}.cf1
      GROUP BY (ctid::text::point)[0]) AS blocks
