-- What petal made in a schema, and then the schema: nothing of anybody else's (RESTRICT).
DROP TABLE IF EXISTS {schema}.cf1, {schema}.cf2, {schema}.petal_meta;
{procedures}DROP SCHEMA IF EXISTS {schema};
