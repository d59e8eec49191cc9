//! A schema made and filled: tables, rows, index, `petalN_meta`. When it returns, all of it is
//! durable.
//!
//! Rows go by prepared multi-row INSERTs, which every server takes, each row with its filler rows,
//! whose text the server makes itself. Some thousand pages are one transaction, which deletes the
//! fillers again while they are cached.

use mysql_async::{Params, Statement, Value};

use super::client::Client;
use super::errors::AtServer as _;
use super::page_layout::RowGroup;
use super::schema;
use petal_engine::Result;
use petal_engine::server::loader::{Load, LoadState};
use petal_workload::row::{COLUMNS, Filler, load_stamp};
use petal_workload::scatter::Permutation;

/// Rows of one statement, fillers aside.
const STATEMENT_ROWS: u64 = 64;
/// Bytes of the blocks of one transaction. A group of servers takes none of much more.
const COMMIT_BYTES: u64 = 64 << 20;
/// The text of which the server makes a filler. It copies piece by piece: pieces of one character
/// take it as long as all the rest of an INSERT.
const FILLER_PIECE_BYTES: usize = 64;

/// The most that one statement of a load sends: an INSERT of rows that fill half of a block each, with
/// the text that makes fillers.
pub fn statement_bytes(block_bytes: u32) -> u64 {
    STATEMENT_ROWS * u64::from(block_bytes) * 3 / 4
}

pub struct Filling<'a> {
    pub load: &'a Load<'a>,
    pub schema: u32,
    pub state: &'a LoadState<'a>,
}

impl Filling<'_> {
    pub fn run(&self, client: &mut Client) -> Result<()> {
        let (plan, name) = (self.load.plan, schema::loading_name(self.schema));
        let group = RowGroup::in_pages_of(plan.block_size)?;
        for sql in schema::create_tables(&name, &group) {
            client.send("creating the tables", &sql)?;
        }
        self.fill(client, &format!("{name}_cf1"), plan.rows, &group)?;
        self.fill(client, &format!("{name}_cf2"), plan.scan_rows, &group)?;
        client.send("creating the index", &schema::create_index(&name, plan.unique_index))?;
        schema::write_meta(client, plan, self.schema)
    }

    /// Rows in the order of their pages, keys scattered.
    fn fill(&self, client: &mut Client, table: &str, rows: u64, group: &RowGroup) -> Result<()> {
        let Load { plan, progress, .. } = self.load;
        let doing = &format!("writing rows of {table}");
        let keys = Permutation::new(rows.max(1), plan.seed);
        let whole = Insert::prepare(client, table, group, STATEMENT_ROWS)?;
        let single = Insert::prepare(client, table, group, 1)?;
        let no_fillers = RowGroup { fillers: 0, ..*group };
        let last = Insert::prepare(client, table, &no_fillers, 1)?;
        let stride = u64::from(group.fillers) + 1;
        let commit_rows = COMMIT_BYTES / u64::from(plan.block_size);
        let (mut from, mut kept_from) = (0, 0);
        while from < rows {
            let upto = rows.min(from + commit_rows);
            client.send(doing, "START TRANSACTION")?;
            let mut row = from;
            while row < upto {
                self.state.go_on()?;
                let insert = match (upto - row, rows - row) {
                    // No further row comes, and a page must not hold fillers alone.
                    (_, 1) => &last,
                    (left, all) if left >= STATEMENT_ROWS && all > STATEMENT_ROWS => &whole,
                    _ => &single,
                };
                let texts = (self.schema, plan.filler);
                let values = insert.values(row, stride, &keys, texts);
                client.execute(&insert.statement, values).at(&client.server, doing)?;
                row += insert.rows;
                progress.advance(insert.rows * u64::from(plan.block_size));
            }
            // The last row's fillers keep the next row out of its page, until that row is there.
            let keep_from = if upto == rows { rows * stride } else { (upto - 1) * stride };
            if group.fillers > 0 {
                let sql = format!(
                    "DELETE FROM {table} WHERE pos >= {kept_from} AND pos < {keep_from} \
                     AND custid IS NULL"
                );
                client.send(doing, &sql)?;
            }
            client.send(doing, "COMMIT")?;
            (from, kept_from) = (upto, keep_from);
        }
        Ok(())
    }
}

/// A prepared INSERT of so many rows, each with its fillers.
struct Insert {
    statement: Statement,
    rows: u64,
    group: RowGroup,
}

impl Insert {
    fn prepare(client: &mut Client, table: &str, group: &RowGroup, rows: u64) -> Result<Self> {
        let row = format!("({})", vec!["?"; COLUMNS + 2].join(", "));
        let nulls = vec!["NULL"; COLUMNS].join(", ");
        let text = FILLER_PIECE_BYTES.min(group.filler_bytes as usize);
        let text = format!("RPAD('', {}, '{}')", group.filler_bytes, "x".repeat(text));
        let filler = format!("(?, {nulls}, {text})");
        let mut each = vec![row];
        each.extend(vec![filler; group.fillers as usize]);
        let all = vec![each.join(", "); rows as usize];
        let sql = format!("INSERT INTO {table} VALUES {}", all.join(", "));
        let prepared = client.prepare(&sql);
        let statement = prepared.at(&client.server, &format!("writing rows of {table}"))?;
        Ok(Self { statement, rows, group: *group })
    }

    /// Rows from `first` on, `stride` primary keys apart.
    fn values(
        &self,
        first: u64,
        stride: u64,
        keys: &Permutation,
        (schema, filler): (u32, Filler),
    ) -> Params {
        let mut values = Vec::with_capacity(self.statement.num_params().into());
        for row in first..first + self.rows {
            let key = keys.apply(row) + 1;
            let stamp = load_stamp(schema, key);
            values.extend([Value::UInt(row * stride), Value::UInt(key)]);
            for column in (2..).take(COLUMNS) {
                let mut text = vec![0; self.group.column as usize];
                filler.fill(&mut text, stamp, column);
                values.push(Value::Bytes(text));
            }
            let fillers = 1..=u64::from(self.group.fillers);
            values.extend(fillers.map(|filler| Value::UInt(row * stride + filler)));
        }
        Params::Positional(values)
    }
}
