//! Rows of a table, with all their text in one buffer: reports have tens of thousands of cells, and
//! most hold a few characters.

/// Rows of cells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableRows {
    text: String,
    /// End of each cell in the text. Reports are smaller than 4 GiB.
    cell_ends: Vec<u32>,
    /// End of each row among the cells.
    row_ends: Vec<u32>,
}

/// Row of a table.
#[derive(Debug, Clone, Copy)]
pub struct TableRow<'t> {
    rows: &'t TableRows,
    from: usize,
    to: usize,
}

impl TableRows {
    /// Adds a cell to the open row.
    pub fn push(&mut self, cell: &str) {
        self.text.push_str(cell);
        self.cell_ends.push(self.text.len() as u32);
    }

    /// Ends the open row; a row without cells is dropped.
    pub fn end_row(&mut self) {
        if self.cell_ends.len() > self.at(self.row_ends.len()) {
            self.row_ends.push(self.cell_ends.len() as u32);
        }
    }

    pub fn extend<'c>(&mut self, cells: impl IntoIterator<Item = &'c str>) {
        cells.into_iter().for_each(|cell| self.push(cell));
        self.end_row();
    }

    pub fn len(&self) -> usize {
        self.row_ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.row_ends.is_empty()
    }

    /// Returns the number of cells in all rows.
    pub fn cells(&self) -> usize {
        self.cell_ends.len()
    }

    /// Keeps only the first rows.
    pub fn truncate(&mut self, rows: usize) {
        self.row_ends.truncate(rows);
        self.cell_ends.truncate(self.at(self.row_ends.len()));
        self.text.truncate(self.cell_ends.last().map_or(0, |&end| end as usize));
    }

    pub fn get(&self, row: usize) -> Option<TableRow<'_>> {
        let to = *self.row_ends.get(row)? as usize;
        Some(TableRow { rows: self, from: self.at(row), to })
    }

    pub fn first(&self) -> Option<TableRow<'_>> {
        self.get(0)
    }

    pub fn last(&self) -> Option<TableRow<'_>> {
        self.get(self.len().checked_sub(1)?)
    }

    pub fn iter(&self) -> impl Iterator<Item = TableRow<'_>> {
        (0..self.len()).filter_map(|row| self.get(row))
    }

    /// Returns the position of a row's first cell.
    fn at(&self, row: usize) -> usize {
        row.checked_sub(1).and_then(|before| self.row_ends.get(before)).map_or(0, |&at| at as usize)
    }
}

impl<'t> TableRow<'t> {
    pub fn get(self, column: usize) -> Option<&'t str> {
        let at = self.from.checked_add(column)?;
        let end = |at: usize| self.rows.cell_ends.get(at).map(|&end| end as usize);
        let from = at.checked_sub(1).map_or(Some(0), end)?;
        if at < self.to { self.rows.text.get(from..end(at)?) } else { None }
    }

    /// Returns the number of the row's cells.
    pub fn width(self) -> usize {
        self.to - self.from
    }

    pub fn cells(self) -> impl Iterator<Item = &'t str> {
        (0..self.to - self.from).filter_map(move |column| self.get(column))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_come_back_as_they_were_given() {
        let mut rows = TableRows::default();
        rows.extend(["", "a", "é"]);
        rows.end_row();
        rows.extend(["1,234"]);
        rows.extend(["x", ""]);
        let all = |rows: &TableRows| -> Vec<Vec<String>> {
            rows.iter().map(|row| row.cells().map(str::to_owned).collect()).collect()
        };
        assert_eq!(all(&rows), [vec!["", "a", "é"], vec!["1,234"], vec!["x", ""]]);
        assert_eq!(rows.first().and_then(|row| row.get(3)), None, "of the next row");
        rows.truncate(1);
        rows.extend(["b"]);
        assert_eq!(
            (all(&rows), rows.cells()),
            (vec![vec!["".into(), "a".into(), "é".into()], vec!["b".into()]], 4)
        );
    }
}
