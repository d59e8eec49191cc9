#!/bin/bash
# Grants the user petal what docs/engines/oracle-grants.sql grants, in the pluggable database. Runs in the
# container, once, after the database was made; the user is there already. It needs no execute bit.
set -euo pipefail
{
    echo "WHENEVER SQLERROR EXIT FAILURE"
    echo "ALTER SESSION SET CONTAINER = $PETAL_PDB;"
    echo "ALTER USER petal DEFAULT TABLESPACE users QUOTA UNLIMITED ON users;"
    # Also what the script leaves to the DBA: settling and ending operations.
    sed 's/^-- GRANT ALTER SYSTEM/GRANT ALTER SYSTEM/' "${PETAL_GRANTS:-/grants.sql}" | grep '^GRANT '
} | sqlplus -s / as sysdba
# The health check of compose.yaml waits for this file.
touch "${PETAL_GRANTED:-/tmp/petal-granted}"
