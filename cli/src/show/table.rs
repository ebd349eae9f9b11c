//! Aligned columns.

use std::fmt;

/// Rows under a heading. The width of a cell is its number of characters, which is right for the texts here.
pub struct Table<const COLUMNS: usize> {
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    /// Begins with the heading only.
    pub fn new(heading: [&str; COLUMNS]) -> Table<COLUMNS> {
        Table { rows: vec![heading.map(str::to_owned)] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: [String; COLUMNS]) {
        self.rows.push(cells);
    }
}

impl<const COLUMNS: usize> fmt::Display for Table<COLUMNS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| self.rows.iter().map(|row| visible(&row[column])).max().unwrap_or(0);
        let widths: [usize; COLUMNS] = std::array::from_fn(width);
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(widths) {
                line.push_str(cell);
                line.push_str(&" ".repeat(width - visible(cell) + 2));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Characters that take space: not those of a colour's escape sequence, which ends with m.
fn visible(cell: &str) -> usize {
    let mut in_escape = false;
    let mut width = 0;
    for c in cell.chars() {
        match (in_escape, c) {
            (false, '\x1b') => in_escape = true,
            (false, _) => width += 1,
            (true, 'm') => in_escape = false,
            (true, _) => {}
        }
    }
    width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_with_colour_too() {
        let mut table = Table::new(["A", "LONG", "C"]);
        table.row(["\x1b[32mgreen\x1b[0m".to_owned(), "é".to_owned(), String::new()]);
        table.row(["x".to_owned(), "y".to_owned(), "z".to_owned()]);
        assert_eq!(table.to_string(), "A      LONG  C\n\x1b[32mgreen\x1b[0m  é\nx      y     z\n");
    }
}
