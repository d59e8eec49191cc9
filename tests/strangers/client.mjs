// Logs on by node-oracledb in thin mode, selects, and executes the block. Arguments: port, folder.
import fs from 'node:fs';
import oracledb from 'oracledb';

const [port, folder] = process.argv.slice(2);
const connection = await oracledb.getConnection({
  user: 'petal', password: 's3cret', connectString: `127.0.0.1:${port}/standin`,
});
const rows = await connection.execute('SELECT name, value FROM sys.v_$parameter ORDER BY name');
for (const row of rows.rows) console.log(row.join('='));
const binds = {};
for (const line of fs.readFileSync(`${folder}/binds`, 'utf8').split('\n').filter(Boolean)) {
  const [name, value] = [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)];
  binds[name] = /^\d{1,12}$/.test(value) ? Number(value) : value;
}
for (const name of ['ended', 'errors']) {
  binds[name] = { dir: oracledb.BIND_OUT, type: oracledb.STRING, maxSize: 4000 };
}
const block = fs.readFileSync(`${folder}/block.sql`, 'utf8');
for (let call = 0; call < 2; call++) {
  const { outBinds } = await connection.execute(block, binds);
  console.log(`ended ${outBinds.ended} errors ${outBinds.errors ?? ''}`);
}
await connection.close();
