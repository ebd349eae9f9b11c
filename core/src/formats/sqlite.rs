//! SQLite ("Database File Format", sqlite.org/fileformat2.html): page 1 is the root of the schema. The schema is a tree like all others,
//! and each of its rows names the root of another tree.
//!
//! A program that opens a database reads the whole schema, and every query begins at roots. Below the roots a query touches few pages, and
//! each costs a whole frame for one page. So below roots this reader wants only pages that lead to other pages: all of them if they are
//! few; if they are many, some more, the more of them queries have met.

use super::{Peek, Wants, be, peek};
use std::collections::{BTreeSet, VecDeque};

const MAGIC: &[u8] = b"SQLite format 3\0";
/// Before the tree of page 1.
const FILE_HEADER_BYTES: u64 = 100;
const INNER_OF_INDEX: u8 = 2;
const INNER_OF_TABLE: u8 = 5;
const LEAF_OF_TABLE: u8 = 13;
/// Before the array of cell places in a page; four less in a leaf.
const NODE_HEADER_BYTES: usize = 12;
/// The most pages of the schema's own tree.
const SCHEMA_PAGES_MAX: usize = 64;
/// The most pages that hold the parts of schema rows which do not fit into their leaves.
const OVERFLOW_PAGES_MAX: usize = 64;
/// How much of each row to look at: the row begins with three names, and the root comes after them.
const ROW_BYTES_MAX: usize = 16 << 10;
/// The fourth column of the schema is the root.
const ROOT_COLUMN: usize = 3;
/// The most roots.
const ROOTS_MAX: usize = 256;
/// The most pages right below a root to want whole if they are not leaves. If there are more, it depends on how many queries have met.
const SIBLINGS_MAX: usize = 16;
/// The most trees to look at below their roots.
const TREES_MAX: usize = 16;
/// The most levels below a root; SQLite itself allows 20.
const LEVELS_MAX: usize = 20;
/// The most pages below roots to look at.
const NODES_MAX: usize = 4096;

pub(super) fn recognises(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

pub(super) fn wants(file: &dyn Peek, wants: &mut Wants) {
    let Some(database) = Database::of(file) else { return };
    let roots = database.schema(wants);
    roots.iter().for_each(|root| database.want(*root, wants));
    let mut left = NODES_MAX;
    let trees = roots.iter().filter(|root| database.kind(**root).is_some_and(is_inner));
    for root in trees.take(TREES_MAX) {
        database.below(*root, &mut left, wants);
    }
}

/// How many pages of a level to make local, given that `here` are: all up to the next power of two, once only an eighth of that is missing.
/// Pages that come in this way trigger no more. At most a quarter of all local pages were never asked for: each doubling halves the old
/// share and adds an eighth.
fn worth(here: usize) -> usize {
    let next = here.next_power_of_two();
    if here * 8 >= next * 7 { next } else { here }
}

/// A database, as far as it is local. Its pages count from 1.
struct Database<'a> {
    file: &'a dyn Peek,
    page_bytes: u64,
    /// Bytes of a page without its reserved ones.
    usable_bytes: u64,
}

/// A page of a tree.
struct Node {
    page: Vec<u8>,
    /// Where the node begins in the page.
    start: usize,
    kind: u8,
    cells: usize,
}

impl<'a> Database<'a> {
    fn of(file: &'a dyn Peek) -> Option<Self> {
        let head = peek(file, 0, FILE_HEADER_BYTES)?;
        let page_bytes = match be(&head, 16, 2)? {
            1 => 65536,
            bytes @ 512..=32768 if bytes.is_power_of_two() => bytes,
            _ => return None,
        };
        let usable_bytes = page_bytes - be(&head, 20, 1)?;
        Some(Self { file, page_bytes, usable_bytes })
    }

    fn start(&self, number: u64) -> u64 {
        number.saturating_sub(1).saturating_mul(self.page_bytes)
    }

    fn want(&self, number: u64, wants: &mut Wants) {
        wants.push(self.start(number), self.page_bytes);
    }

    /// A page of a tree, whole.
    fn node(&self, number: u64) -> Option<Node> {
        let page = peek(self.file, self.start(number), self.page_bytes)?;
        let start = if number == 1 { FILE_HEADER_BYTES as usize } else { 0 };
        let (kind, cells) = (*page.get(start)?, be(&page, start + 3, 2)? as usize);
        Some(Node { page, start, kind, cells })
    }

    fn kind(&self, number: u64) -> Option<u8> {
        peek(self.file, self.start(number), 1)?.first().copied()
    }

    /// The roots that the schema names, as far as it is local. Wants the parts that are missing.
    fn schema(&self, wants: &mut Wants) -> BTreeSet<u64> {
        let (mut pages, mut seen) = (VecDeque::from([1]), BTreeSet::from([1]));
        let (mut roots, mut overflow) = (BTreeSet::new(), OVERFLOW_PAGES_MAX);
        while let Some(number) = pages.pop_front() {
            self.want(number, wants);
            let Some(node) = self.node(number) else { continue };
            match node.kind {
                INNER_OF_TABLE => {
                    for below in node.children() {
                        if seen.len() < SCHEMA_PAGES_MAX && seen.insert(below) {
                            pages.push_back(below);
                        }
                    }
                }
                LEAF_OF_TABLE => {
                    for at in (0..node.cells).filter_map(|cell| node.cell(cell)) {
                        if roots.len() == ROOTS_MAX {
                            break;
                        }
                        let row = self.row(&node.page, at, &mut overflow, wants);
                        roots.extend(row.and_then(|row| root(&row)));
                    }
                }
                _ => {}
            }
        }
        roots
    }

    /// The beginning of the row at `at` of a leaf, as far as it is local. Wants the whole row, as long as that takes at most `overflow`
    /// pages.
    fn row(&self, page: &[u8], at: usize, overflow: &mut usize, wants: &mut Wants) -> Option<Vec<u8>> {
        let (bytes, len) = varint(page.get(at..)?)?;
        let (_number, number_len) = varint(page.get(at + len..)?)?;
        let start = at + len + number_len;
        let here = self.bytes_in_leaf(bytes)?;
        let mut row = page.get(start..start.checked_add(here)?)?.to_vec();
        let mut left = bytes - here as u64;
        if left == 0 {
            return Some(row);
        }
        let mut next = be(page, start + here, 4)?;
        let each = self.usable_bytes.checked_sub(4)?;
        // Usually they lie one behind another.
        let pages = left.div_ceil(each).min(*overflow as u64);
        wants.push(self.start(next), pages * self.page_bytes);
        while next > 0 && left > 0 && *overflow > 0 {
            *overflow -= 1;
            self.want(next, wants);
            let looked_at = (ROW_BYTES_MAX.saturating_sub(row.len()) as u64).min(left).min(each);
            let Some(page) = peek(self.file, self.start(next), 4 + looked_at) else { break };
            row.extend(page.get(4..).unwrap_or_default());
            (left, next) = (left.saturating_sub(each), be(&page, 0, 4)?);
        }
        Some(row)
    }

    /// How much of a row of `bytes` bytes is in the leaf itself (section 1.6, "B-tree Pages").
    fn bytes_in_leaf(&self, bytes: u64) -> Option<usize> {
        let usable = self.usable_bytes;
        let most = usable.checked_sub(35)?;
        if bytes <= most {
            return usize::try_from(bytes).ok();
        }
        let least = ((usable - 12) * 32 / 255).checked_sub(23)?;
        let fitting = least + (bytes - least) % (usable - 4);
        usize::try_from(if fitting <= most { fitting } else { least }).ok()
    }

    /// Wants the pages of a tree that lead to its leaves. Looks at most at `left` pages.
    fn below(&self, root: u64, left: &mut usize, wants: &mut Wants) {
        let mut above = vec![root];
        for _ in 0..LEVELS_MAX {
            let nodes = above.iter().filter_map(|number| self.node(*number));
            let level: Vec<_> =
                nodes.flat_map(|node| node.children().collect::<Vec<_>>()).take(*left).collect();
            *left -= level.len();
            let Some(last) = level.last() else { return };
            let are_few = above == [root] && level.len() <= SIBLINGS_MAX;
            if are_few {
                self.want(*last, wants);
            }
            // All leaves of a tree are equally deep, so a look at one page shows whether this level is leaves.
            if !level.iter().rev().find_map(|number| self.kind(*number)).is_some_and(is_inner) {
                return;
            }
            let (here, missing): (Vec<u64>, Vec<u64>) =
                level.iter().partition(|number| self.kind(**number).is_some());
            if are_few {
                level.iter().for_each(|number| self.want(*number, wants));
            } else {
                // From the end: a table's new rows are there.
                let more = worth(here.len()) - here.len();
                missing.iter().rev().take(more).for_each(|number| self.want(*number, wants));
            }
            above = here;
        }
    }
}

impl Node {
    /// Where a cell begins.
    fn cell(&self, number: usize) -> Option<usize> {
        let header = if is_inner(self.kind) { NODE_HEADER_BYTES } else { NODE_HEADER_BYTES - 4 };
        Some(be(&self.page, self.start + header + 2 * number, 2)? as usize)
    }

    /// The pages below a page that is not a leaf.
    fn children(&self) -> impl Iterator<Item = u64> {
        let cells = (0..self.cells).filter_map(|number| be(&self.page, self.cell(number)?, 4));
        cells.chain(be(&self.page, self.start + 8, 4)).filter(|child| *child > 0)
    }
}

fn is_inner(kind: u8) -> bool {
    matches!(kind, INNER_OF_INDEX | INNER_OF_TABLE)
}

/// The root that one row of the schema names.
fn root(row: &[u8]) -> Option<u64> {
    let mut at = 0;
    let next = |at: &mut usize| {
        let (value, len) = varint(row.get(*at..)?)?;
        *at += len;
        Some(value)
    };
    let mut value = usize::try_from(next(&mut at)?).ok()?;
    for _ in 0..ROOT_COLUMN {
        value = value.checked_add(value_bytes(next(&mut at)?)?)?;
    }
    match next(&mut at)? {
        kind @ 1..=6 => be(row, value, value_bytes(kind)?).filter(|root| *root > 0),
        // The numbers 0 (a view has no root) and 1 take no bytes.
        _ => None,
    }
}

/// Bytes of a value of a serial type.
fn value_bytes(kind: u64) -> Option<usize> {
    Some(match kind {
        0 | 8 | 9 => 0,
        1..=4 => kind as usize,
        5 => 6,
        6 | 7 => 8,
        10 | 11 => return None,
        kind => usize::try_from((kind - 12) / 2).ok()?,
    })
}

/// Up to nine bytes, with seven bits in each of the first eight; and their count.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().take(9).enumerate() {
        if at == 8 {
            return Some((value << 8 | u64::from(*byte), 9));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
    }
    None
}
