// Prints what DuckDB's client for Node, or its build for browsers, makes of letters.duckdb, for .ci/readers.
const path = require('node:path');
const { createRequire } = require('node:module');

const installed = createRequire(path.join(process.cwd(), 'node_modules', 'index.js'));
const COLUMNS = 'created_at, undocumented, is_verified';
const FACTS = `SELECT comment IS NOT NULL AS described, NOT is_nullable AS required FROM duckdb_columns()
  WHERE (table_name, column_name) = ('contacts', 'id')`;

async function nodeClient() {
  const { DuckDBInstance } = installed('@duckdb/node-api');
  const instance = await DuckDBInstance.create('letters.duckdb', { access_mode: 'READ_ONLY' });
  const connection = await instance.connect();
  return async (query) => {
    const read = await connection.runAndReadAll(query);
    return [read.columnTypes().map(String), read.getRowsJS()];
  };
}

async function wasm() {
  const module = '@duckdb/duckdb-wasm/dist/duckdb-node-blocking.cjs';
  const { createDuckDB, VoidLogger, NODE_RUNTIME } = installed(module);
  const dist = path.dirname(installed.resolve(module));
  const bundle = { mainModule: path.join(dist, 'duckdb-eh.wasm'), mainWorker: '' };
  const database = await createDuckDB({ mvp: bundle, eh: bundle }, new VoidLogger(), NODE_RUNTIME);
  await database.instantiate(() => {});
  database.open({ path: path.resolve('letters.duckdb'), accessMode: 1 });
  const connection = database.connect();
  return async (query) => {
    const read = connection.query(query);
    return [read.schema.fields.map((field) => String(field.type)), read.toArray().map((row) => Object.values(row.toJSON()))];
  };
}

(async () => {
  const query = await (process.argv[2].endsWith('wasm') ? wasm() : nodeClient());
  await query('USE letters_data');
  const [types] = await query(`SELECT ${COLUMNS} FROM contacts LIMIT 1`);
  const [[page], rows] = await query('SELECT page FROM rejected_rows');
  const [, [facts]] = await query(FACTS);
  console.log(JSON.stringify([types, `${rows.length} rows, ${page}`, ...facts]));
  process.exit();
})();
