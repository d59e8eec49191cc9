"""Sends statements of petal's through python-oracledb in thin mode, petal's reference client.

Reads from standard input, as JSON: where to connect, and the statements of one session in their order.
Writes its version, and what each block gave back.
"""

import json
import re
import sys

import oracledb

OUTS = ["ended", "errors"]

given = json.load(sys.stdin)
connection = oracledb.connect(
    user="petal", password=given["password"], dsn=f"127.0.0.1:{given['port']}/standin"
)
answers = []
# One cursor for each statement, with its variables, as petal's driver keeps them.
cursors, outs = {}, {}
for message in given["messages"]:
    sql, rows = message["sql"], message["rows"]
    if sql is None:
        connection.commit()
        continue
    if sql not in cursors:
        cursors[sql] = connection.cursor()
        cursors[sql].arraysize = 500
    cursor = cursors[sql]
    if sql.split()[:2] == ["DECLARE", "ops"]:
        names = list(dict.fromkeys(re.findall(r":([a-z]\w*)", sql)))
        if sql not in outs:
            outs[sql] = {name: cursor.var(oracledb.DB_TYPE_VARCHAR) for name in OUTS}
        for out in outs[sql].values():
            out.setvalue(0, None)
        ins = dict(zip([name for name in names if name not in OUTS], rows[0]))
        cursor.execute(sql, ins | outs[sql])
        answers.append([outs[sql][name].getvalue() or "" for name in OUTS])
    elif len(rows) > 1:
        cursor.executemany(sql, rows)
    else:
        cursor.execute(sql, rows[0] if rows else None)
        if cursor.description:
            cursor.fetchall()
connection.close()
json.dump({"version": oracledb.__version__, "answers": answers}, sys.stdout)
