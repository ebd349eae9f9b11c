//! Draws the state of a drive's chunks.

use crate::api::{Cell, ChunkMap};
use crate::output::{Hue, Paint};
use crate::show::table::Table;
use crate::sizes::format_bytes;

/// Cells in a row: with the address before them it fits 80 columns, and 4,096 cells make 64 rows.
const CELLS_IN_ROW: usize = 64;

/// Rows of cells, the legend, and the amount of each kind.
pub fn map(map: &ChunkMap, paint: Paint) -> String {
    let mut text = String::new();
    for (row, cells) in map.cells.chunks(CELLS_IN_ROW).enumerate() {
        let address = map.cell_bytes.saturating_mul((row * CELLS_IN_ROW) as u64);
        text.push_str(&format!("{:>10}  ", format_bytes(address)));
        // A run of equal cells is coloured at once, so that a map is not mostly escape sequences.
        for run in cells.chunk_by(|a, b| a == b) {
            let look = Look::of(run[0]);
            text.push_str(&paint.hue(look.hue, &look.glyph.repeat(run.len())));
        }
        text.push('\n');
    }
    let mut legend = Table::new(["", "", ""]);
    let cells =
        [Cell::Absent, Cell::Cached, Cell::Pinned, Cell::Dirty, Cell::Uploading, Cell::Failed, Cell::Empty];
    for cell in cells {
        let look = Look::of(cell);
        let bytes = format_bytes(map.bytes.of(cell));
        legend.row([paint.hue(look.hue, look.glyph), look.word.to_owned(), bytes]);
    }
    text.push_str(&legend.to_string());
    let each = format_bytes(map.cell_bytes);
    text.push_str(&format!("Each cell is {each}, and shows the most important state of anything in it.\n"));
    text
}

struct Look {
    glyph: &'static str,
    word: &'static str,
    hue: Hue,
}

impl Look {
    fn of(cell: Cell) -> Look {
        let (glyph, word, hue) = match cell {
            Cell::Absent => ("·", "Online only", Hue::Dim),
            Cell::Cached => ("■", "Available on this computer", Hue::Good),
            Cell::Pinned => ("◆", "Always kept on this computer", Hue::Good),
            Cell::Dirty => ("○", "Waiting to upload", Hue::Busy),
            Cell::Uploading => ("↑", "Uploading", Hue::Busy),
            Cell::Failed => ("!", "Failed, will be retried", Hue::Bad),
            Cell::Empty => ("□", "Empty", Hue::Dim),
        };
        Look { glyph, word, hue }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::CellBytes;

    #[test]
    fn a_map_has_an_address_for_each_row_and_a_legend() {
        let mut cells = vec![Cell::Absent; 64];
        cells.extend([Cell::Cached, Cell::Cached, Cell::Dirty, Cell::Uploading]);
        let bytes = CellBytes {
            absent: 64 << 20,
            cached: 3 << 20,
            dirty: 15 << 10,
            uploading: 1009 << 10,
            ..CellBytes::default()
        };
        let text = map(&ChunkMap { cell_bytes: 1 << 20, cells, bytes }, Paint(false));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], format!("       0 B  {}", "·".repeat(64)));
        assert_eq!(lines[1], "    64 MiB  ■■○↑");
        assert_eq!(lines[3], "·  Online only                   64 MiB");
        assert_eq!(lines[4], "■  Available on this computer    3 MiB");
        assert_eq!(lines[6], "○  Waiting to upload             15 KiB");
        assert_eq!(lines[8], "!  Failed, will be retried       0 B");
        assert_eq!(lines[9], "□  Empty                         0 B");
        assert_eq!(lines[10], "Each cell is 1 MiB, and shows the most important state of anything in it.");
        assert_eq!(lines.len(), 11);
    }
}
