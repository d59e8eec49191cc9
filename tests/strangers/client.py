"""Logs on by python-oracledb in thin mode, selects, and executes the block. Arguments: port, folder."""

import re
import sys

import oracledb

port, folder = sys.argv[1:]
connection = oracledb.connect(user="petal", password="s3cret", dsn=f"127.0.0.1:{port}/standin")
cursor = connection.cursor()
for row in cursor.execute("SELECT name, value FROM sys.v_$parameter ORDER BY name"):
    print("=".join(row))
binds = {}
for line in open(f"{folder}/binds").read().splitlines():
    name, value = line.split("=", 1)
    binds[name] = int(value) if re.fullmatch(r"\d{1,12}", value) else value
for name in ["ended", "errors"]:
    binds[name] = cursor.var(str, 4000)
block = open(f"{folder}/block.sql").read()
for _ in range(2):
    cursor.execute(block, binds)
    print(f"ended {binds['ended'].getvalue()} errors {binds['errors'].getvalue() or ''}")
connection.close()
