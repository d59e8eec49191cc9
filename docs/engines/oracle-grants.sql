-- What petal needs in an Oracle Database, for a DBA to read and then run as SYS (no other may grant
-- SYS's views), in SQL*Plus or SQLcl, in the pluggable database under test. No DBA role, no ANY privilege, no right on others' data.
-- `petal setup --print-grants` prints this text.
--
-- Parts 1 and 2 let petal load and run. Part 3 lets it see what the database counted. Parts 4 to 6
-- are for those who want them. Managed services: where SYS's views cannot be granted, their own
-- procedure does it (Amazon RDS: rdsadmin.rdsadmin_util.grant_sys_object).

-- Else SQL*Plus shows each line that it filled in, with the password.
SET VERIFY OFF
ACCEPT petal_password CHAR PROMPT 'Password of the new user petal: ' HIDE
DEFINE petal_tablespace = IOPS

-- 1. The user who owns the test data. petal makes tables in its own schema and nothing else: no
--    users, so no passwords beside this one, and no procedures.
CREATE USER petal IDENTIFIED BY "&petal_password" DEFAULT TABLESPACE &petal_tablespace;
UNDEFINE petal_password
GRANT CREATE SESSION, CREATE TABLE TO petal;

-- 2. Room. Name every tablespace that is to be tested.
ALTER USER petal QUOTA UNLIMITED ON &petal_tablespace;

-- 3. Read-only views of what the instances count, and of their settings. All instances: GV$.
GRANT SELECT ON sys.gv_$instance TO petal;
GRANT SELECT ON sys.gv_$sysstat TO petal;
GRANT SELECT ON sys.gv_$system_event TO petal;
GRANT SELECT ON sys.gv_$event_histogram_micro TO petal;
GRANT SELECT ON sys.gv_$iostat_function TO petal;
GRANT SELECT ON sys.gv_$osstat TO petal;
GRANT SELECT ON sys.gv_$sys_time_model TO petal;
GRANT SELECT ON sys.gv_$buffer_pool TO petal;
GRANT SELECT ON sys.v_$parameter TO petal;
GRANT SELECT ON sys.v_$log TO petal;
GRANT SELECT ON sys.v_$archive_dest TO petal;
GRANT SELECT ON sys.v_$database TO petal;
GRANT SELECT ON sys.gv_$resource_limit TO petal;
GRANT SELECT ON sys.dba_data_files TO petal;
--    Devices of the disk groups, if the data are in ASM.
GRANT SELECT ON sys.v_$asm_disk TO petal;
GRANT SELECT ON sys.v_$asm_diskgroup TO petal;
--    Room for a load, which `petal check` shows before it.
GRANT SELECT ON sys.dba_temp_files TO petal;
GRANT SELECT ON sys.v_$recovery_file_dest TO petal;
--    Whether petal's own session still works where no answer comes. Without it a load whose answer was
--    lost waits until somebody interrupts it.
GRANT SELECT ON sys.gv_$session TO petal;

-- 4. A log switch and a checkpoint before each run, and ending an operation that hangs: CANCEL SQL, or
--    KILL SESSION where that fails (12.2), both of petal's own sessions. This is
--    a wide privilege: leave it out, or name another user as DBA_PRIV_USER for it. Without it the
--    record says that the run before was not settled.
-- GRANT ALTER SYSTEM TO petal;

-- 5. DATABASE_STATISTICS_TYPE=awr. AWR may be used only with a licence of the Diagnostics Pack.
-- GRANT EXECUTE ON sys.dbms_workload_repository TO petal;
--    What some releases want beside it is the role SELECT_CATALOG_ROLE or ADVISOR: petal's error names
--    the object that it was refused.
--    DATABASE_STATISTICS_TYPE=statspack, where Statspack is installed:
-- GRANT EXECUTE ON perfstat.statspack TO petal;
-- GRANT SELECT ON perfstat.stats$snapshot TO petal;
-- GRANT SELECT ON perfstat.stats$database_instance TO petal;
-- GRANT SELECT ON perfstat.stats$sysstat TO petal;
-- GRANT SELECT ON perfstat.stats$system_event TO petal;
-- GRANT SELECT ON perfstat.stats$idle_event TO petal;
-- GRANT SELECT ON perfstat.stats$sys_time_model TO petal;
-- GRANT SELECT ON perfstat.stats$time_model_statname TO petal;
-- GRANT SELECT ON perfstat.stats$osstat TO petal;
-- GRANT SELECT ON perfstat.stats$osstatname TO petal;

-- 6. SLOB's own schemas, used as they are (--use-slob-schemas): their real sizes, and for each user1
--    to userN its tables
-- GRANT SELECT ON sys.dba_segments TO petal;
-- GRANT SELECT, UPDATE ON user1.cf1 TO petal;
-- GRANT SELECT ON user1.cf2 TO petal;
