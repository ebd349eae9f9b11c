//! Operations on names: make, rename, remove, list.

use super::api::{Asked, Attributes, DirectoryEntry, FolderError, Renaming};
use super::entries::{Cookie, Row};
use super::node::{Ino, Known, MetaHere, Node, Place};
use super::open_folder::Folder;
use super::shared::{DEPTH_MAX, Shared};
use super::step::Step;
use super::tree::{Tree, directories_of};
use super::view::{Seen, attributes_of_row, hides};
use crate::clock::now_ms;
use crate::planted::{self, Bug};
use crate::store::remote::{Kind, Meta, Name, Time};

/// The longest target of a symbolic link, in bytes.
const TARGET_BYTES_MAX: usize = 4095;
/// Rows that are read in one step.
const STEP_ROWS: usize = 512;
/// How often a part of a listing is read again because names in it changed meanwhile: a program that never stops changing them must not
/// keep others from listing.
const LISTING_TRIES: usize = 8;
/// How often a name is looked up again whose inode was replaced meanwhile.
const LOOK_TRIES: usize = 4;

/// Names of a directory that were made or moved here, in the order of its listing.
struct HereAfter {
    names: Vec<(Cookie, Name, Ino)>,
    /// The remote has no such directory.
    is_only_here: bool,
}

impl Shared {
    /// An inode as the tree knows it, or else as the remote has it. For use within a change of the ledger: what was looked at before may
    /// have changed since.
    pub fn node_in(&self, tree: &Tree, ino: Ino) -> Result<Node, FolderError> {
        match tree.node(ino) {
            Some(node) => Ok(node.clone()),
            None => self.as_remote(ino),
        }
    }

    fn as_remote(&self, ino: Ino) -> Result<Node, FolderError> {
        let known = |(place, row): (Place, Row)| Known {
            place,
            kind: row.entry.kind,
            version: row.entry.version,
            meta: row.entry.meta,
            is_writable: row.entry.is_writable,
        };
        self.row_of(ino)?.map(known).map(Node::as_remote).ok_or(FolderError::NotFound)
    }

    /// Adds the directories above the places of a step, which the log has to know with them.
    pub fn with_parents(&self, tree: &Tree, mut step: Step) -> Result<Step, FolderError> {
        let mut at: Vec<Ino> =
            step.states.iter().filter_map(|(_, node)| node.as_ref()).flat_map(directories_of).collect();
        while let Some(ino) = at.pop() {
            let is_there = step.states.iter().any(|(other, _)| *other == ino);
            if ino == Ino::ROOT || is_there || tree.node(ino).is_some() {
                continue;
            }
            let node = self.as_remote(ino)?;
            at.extend(directories_of(&node));
            step.states.push((ino, Some(node)));
        }
        Ok(step)
    }
}

/// Time of day as the file system shows it.
pub(super) fn now() -> Time {
    Time(i128::from(now_ms()) * 1_000_000)
}

/// The node with the time from which on it differs.
pub(super) fn begins_to_differ(node: Node) -> Node {
    let since_ms = if node.differs() || node.may_be_written { node.since_ms } else { now_ms() };
    Node { since_ms, ..node }
}

/// Names that only the engine gives.
fn check_name(name: &Name) -> Result<(), FolderError> {
    match name.is_upload() {
        true => Err(FolderError::BadName("names that begin so are those of uploads under way".into())),
        false => Ok(()),
    }
}

impl Folder {
    /// What a name stands for; `None`: nothing.
    ///
    /// A listing may give the name another inode between two steps of a look-up. That the old one is not found then says nothing of the name.
    pub(super) async fn find(&self, place: &Place) -> Result<Option<(Ino, Node)>, FolderError> {
        if place.parent != Ino::ROOT {
            match self.shared.kind_of(place.parent) {
                Ok(Kind::Directory) => {}
                Ok(Kind::File | Kind::Link) => return Err(FolderError::NotDirectory),
                // The number has no name any longer; the path may lead to another one.
                Err(FolderError::NotFound) => return Err(FolderError::Stale),
                Err(error) => return Err(error),
            }
        }
        for _ in 1..LOOK_TRIES {
            match self.find_once(place).await {
                Err(FolderError::NotFound) => {}
                found => return found,
            }
        }
        self.find_once(place).await
    }

    async fn find_once(&self, place: &Place) -> Result<Option<(Ino, Node)>, FolderError> {
        let seen = match self.shared.see(place)? {
            Seen::Node(ino) => Seen::Node(ino),
            _ => {
                self.refresher.listed(place.parent).await?;
                self.shared.see(place)?
            }
        };
        match seen {
            Seen::Nothing => Ok(None),
            Seen::Node(ino) | Seen::Row(ino, _) => Ok(Some((ino, self.shared.node_or_remote(ino)?))),
            Seen::Unknown => {
                self.refresher.look(place).await?;
                match self.shared.see(place)? {
                    Seen::Node(ino) | Seen::Row(ino, _) => Ok(Some((ino, self.shared.node_or_remote(ino)?))),
                    Seen::Nothing => Ok(None),
                    Seen::Unknown => Err(FolderError::Unavailable(
                        "the directory's listing is not known, so nothing can be said of this name".into(),
                    )),
                }
            }
        }
    }

    pub(super) async fn existing(&self, place: &Place) -> Result<(Ino, Node), FolderError> {
        self.find(place).await?.ok_or(FolderError::NotFound)
    }

    pub(super) async fn look_up_at(&self, place: &Place) -> Result<Attributes, FolderError> {
        let (ino, _) = self.existing(place).await?;
        if let Seen::Row(_, row) = self.shared.see(place)? {
            let row = self.refresher.with_meta(place, row).await;
            if row.entry.meta.is_some() {
                // The look may have shown that it is something else.
                if let Seen::Row(ino, row) = self.shared.see(place)?
                    && !self.shared.opens.is_open(ino)
                    && !self.shared.contents.has(ino)
                {
                    return Ok(attributes_of_row(ino, &row));
                }
            }
        }
        let (ino, _) = self
            .find(place)
            .await?
            .unwrap_or((ino, Node::made(Kind::File, place.clone(), Meta::default(), 0)));
        self.shared.attributes_of(ino)
    }

    /// What a request has made, if the kernel has sent it before and it was done then.
    pub(super) fn answered(&self, asked: Asked) -> Option<Option<Ino>> {
        if !asked.is_repeated || planted::has(Bug::RequestDoneTwice) {
            return None;
        }
        self.shared.ledger.answer(asked.request)
    }

    /// A new inode's node, recorded. Fails if the name is taken by now.
    pub(super) fn record_new(&self, ino: Ino, node: Node, asked: Asked) -> Result<(), FolderError> {
        let place = node.local.clone().expect("what is made has a name");
        self.shared.ledger.change(|tree| {
            if tree.here(&place).is_some() {
                return Err(FolderError::Exists);
            }
            let step = Step { request: asked.request, made: Some(ino), ..Step::one(ino, Some(node)) };
            Ok((self.shared.with_parents(tree, step)?, ()))
        })
    }

    async fn make(
        &self,
        place: Place,
        kind: Kind,
        meta: Meta,
        asked: Asked,
    ) -> Result<Attributes, FolderError> {
        if let Some(Some(ino)) = self.answered(asked) {
            return self.shared.attributes_of(ino);
        }
        self.shared.check_writable()?;
        check_name(&place.name)?;
        if self.find(&place).await?.is_some() {
            return Err(FolderError::Exists);
        }
        let ino = self.shared.inodes.fresh()?;
        self.record_new(ino, Node::made(kind, place, meta, now_ms()), asked)?;
        self.shared.attributes_of(ino)
    }

    pub(super) async fn make_directory_at(
        &self,
        place: Place,
        mode: u32,
        asked: Asked,
    ) -> Result<Attributes, FolderError> {
        let meta = Meta { mode: Some(mode & 0o7777), mtime: Some(now()), ..Meta::default() };
        self.make(place, Kind::Directory, meta, asked).await
    }

    pub(super) async fn make_link_at(
        &self,
        place: Place,
        target: &str,
        asked: Asked,
    ) -> Result<Attributes, FolderError> {
        if target.is_empty() || target.len() > TARGET_BYTES_MAX || target.contains('\0') {
            return Err(FolderError::NameTooLong);
        }
        let meta = Meta { mtime: Some(now()), link: Some(target.to_owned()), ..Meta::default() };
        self.make(place, Kind::Link, meta, asked).await
    }

    pub(super) async fn check_new_file(&self, place: &Place) -> Result<(), FolderError> {
        self.shared.check_writable()?;
        check_name(&place.name)
    }

    pub(super) async fn rename_to(
        &self,
        from: Place,
        to: Place,
        how: Renaming,
        asked: Asked,
    ) -> Result<(), FolderError> {
        if self.answered(asked).is_some() {
            return self.pins_follow(&from, &to).await;
        }
        self.shared.check_writable()?;
        check_name(&to.name)?;
        let (ino, source) = self.existing(&from).await?;
        let target = self.find(&to).await?;
        check_may_change(&source)?;
        let replaced = match (how, target) {
            (Renaming::NoReplace, Some(_)) => return Err(FolderError::Exists),
            (Renaming::Exchange, None) => return Err(FolderError::NotFound),
            (_, Some((other, _))) if other == ino => return Ok(()),
            (_, target) => target,
        };
        self.check_not_within(&to, ino)?;
        if let Some((other, there)) = &replaced {
            check_may_change(there)?;
            match (how, source.kind == Kind::Directory, there.kind == Kind::Directory) {
                (Renaming::Exchange, ..) => self.check_not_within(&from, *other)?,
                (_, true, false) => return Err(FolderError::NotDirectory),
                (_, false, true) => return Err(FolderError::IsDirectory),
                (_, true, true) => self.check_empty(*other).await?,
                (_, false, false) => {
                    // After a power cut, the old file or the whole new one is there.
                    if self.shared.contents.has(ino) && !planted::has(Bug::RenameBeforeBytes) {
                        self.outbox.note_written(ino).await?;
                    }
                }
            }
        }
        let is_exchange = how == Renaming::Exchange;
        self.shared.ledger.change(|tree| {
            let node = begins_to_differ(self.shared.node_in(tree, ino)?);
            if node.local.as_ref() != Some(&from) {
                return Err(FolderError::NotFound);
            }
            let mut states = vec![(ino, Some(Node { local: Some(to.clone()), ..node }))];
            if let Some((other, _)) = &replaced {
                let there = begins_to_differ(self.shared.node_in(tree, *other)?);
                if there.local.as_ref() != Some(&to) {
                    return Err(FolderError::NotFound);
                }
                let after = match is_exchange {
                    true => Node { local: Some(from.clone()), ..there },
                    false => nameless(there),
                };
                states.push((*other, Some(after)));
            } else if tree.here(&to).is_some() {
                return Err(FolderError::Exists);
            }
            let step = Step { request: asked.request, ..Step::of(states) };
            Ok((self.shared.with_parents(tree, step)?, ()))
        })?;
        if let Some((other, _)) = replaced.filter(|_| !is_exchange) {
            self.shared.lost_name(other);
        }
        self.pins_follow(&from, &to).await
    }

    async fn pins_follow(&self, from: &Place, to: &Place) -> Result<(), FolderError> {
        let (above_from, above_to) = (self.shared.path_here(from.parent), self.shared.path_here(to.parent));
        self.pins.renamed(&joined(&above_from, &from.name), &joined(&above_to, &to.name)).await;
        Ok(())
    }

    pub(super) async fn unlink_at(&self, place: Place, asked: Asked) -> Result<(), FolderError> {
        if self.answered(asked).is_some() {
            return Ok(());
        }
        let (ino, node) = self.existing(&place).await?;
        if node.kind == Kind::Directory {
            return Err(FolderError::IsDirectory);
        }
        self.remove(ino, &node, &place, asked)?;
        self.shared.lost_name(ino);
        Ok(())
    }

    pub(super) async fn remove_directory_at(&self, place: Place, asked: Asked) -> Result<(), FolderError> {
        if self.answered(asked).is_some() {
            return Ok(());
        }
        let (ino, node) = self.existing(&place).await?;
        if node.kind != Kind::Directory {
            return Err(FolderError::NotDirectory);
        }
        self.check_empty(ino).await?;
        self.remove(ino, &node, &place, asked)
    }

    fn remove(&self, ino: Ino, node: &Node, place: &Place, asked: Asked) -> Result<(), FolderError> {
        self.shared.check_writable()?;
        check_may_change(node)?;
        self.shared.ledger.change(|tree| {
            let node = begins_to_differ(self.shared.node_in(tree, ino)?);
            if node.local.as_ref() != Some(place) {
                return Err(FolderError::NotFound);
            }
            if node.kind == Kind::Directory && tree.names_in(ino).next().is_some() {
                return Err(FolderError::NotEmpty);
            }
            let step = Step { request: asked.request, ..Step::one(ino, Some(nameless(node))) };
            Ok((self.shared.with_parents(tree, step)?, ()))
        })
    }

    /// Fails if `place` lies in the directory `ino`, or is it.
    fn check_not_within(&self, place: &Place, ino: Ino) -> Result<(), FolderError> {
        let (mut at, mut depth) = (place.parent, 0);
        while at != Ino::ROOT && depth < DEPTH_MAX {
            if at == ino {
                return Err(FolderError::Invalid("a directory cannot be moved into itself"));
            }
            let Some(place) = self.shared.place_here(at)? else { return Err(FolderError::NotFound) };
            at = place.parent;
            depth += 1;
        }
        Ok(())
    }

    async fn check_empty(&self, directory: Ino) -> Result<(), FolderError> {
        self.refresher.listed(directory).await?;
        match self.entries_after(directory, Cookie::START, 1)?.is_empty() {
            true => Ok(()),
            false => Err(FolderError::NotEmpty),
        }
    }

    pub(super) async fn read_directory_after(
        &self,
        directory: Ino,
        after: Cookie,
        most: usize,
    ) -> Result<Vec<DirectoryEntry>, FolderError> {
        if self.shared.kind_of(directory)? != Kind::Directory {
            return Err(FolderError::NotDirectory);
        }
        if after <= Cookie::START {
            self.refresher.listed(directory).await?;
        }
        self.entries_after(directory, after, most)
    }

    /// The entries behind a cookie: the remote's, and those that were made or moved here, in one order.
    ///
    /// An upload that ends meanwhile makes a name that was only here one of the remote's. What is here is therefore looked at before the
    /// rows are read and after that: had a name changed sides between the two, it could come twice, or not at all.
    pub(super) fn entries_after(
        &self,
        directory: Ino,
        after: Cookie,
        most: usize,
    ) -> Result<Vec<DirectoryEntry>, FolderError> {
        let after = after.max(Cookie::START);
        let mut tries = 0..LISTING_TRIES;
        let mut before = self.here_after(directory, after, most);
        loop {
            let found = self.joined_after(directory, after, most, &before)?;
            let end =
                found.last().filter(|_| found.len() >= most).map_or(Cookie(u64::MAX), |last| last.cookie);
            let now = self.here_after(directory, after, most);
            let until_end = |here: &HereAfter| here.names.partition_point(|(cookie, ..)| *cookie <= end);
            let has_changed = before.is_only_here != now.is_only_here
                || before.names[..until_end(&before)] != now.names[..until_end(&now)];
            if !has_changed || tries.next().is_none() {
                return Ok(found);
            }
            before = now;
        }
    }

    /// The first `most` names behind a cookie that were made or moved here.
    fn here_after(&self, directory: Ino, after: Cookie, most: usize) -> HereAfter {
        let entries = &self.shared.entries;
        self.shared.ledger.read(|tree| {
            let with_cookie = |(name, ino)| (entries.home_of(name), name, ino);
            let mut names: Vec<(Cookie, &Name, Ino)> =
                tree.names_in(directory).map(with_cookie).filter(|(cookie, ..)| *cookie > after).collect();
            if names.len() > most {
                names.select_nth_unstable(most);
                names.truncate(most);
            }
            names.sort_unstable();
            HereAfter {
                names: names.into_iter().map(|(cookie, name, ino)| (cookie, name.clone(), ino)).collect(),
                is_only_here: tree.node(directory).is_some_and(|node| node.remote.is_none()),
            }
        })
    }

    fn joined_after(
        &self,
        directory: Ino,
        after: Cookie,
        most: usize,
        HereAfter { names, is_only_here }: &HereAfter,
    ) -> Result<Vec<DirectoryEntry>, FolderError> {
        let shared = &self.shared;
        let mut here = names.iter().cloned().peekable();
        let (mut found, mut at, mut rows_end) = (Vec::<DirectoryEntry>::new(), after, *is_only_here);
        loop {
            let rows = match rows_end {
                true => Vec::new(),
                false => shared.entries.after(directory, at, STEP_ROWS.min(most.max(1) * 2)),
            };
            rows_end = rows.is_empty();
            let until = rows.last().map_or(Cookie(u64::MAX), |row| row.cookie);
            let place = |row: &Row| Place::new(directory, row.entry.name.clone());
            let shown: Vec<bool> =
                shared.ledger.read(|tree| rows.iter().map(|row| !hides(tree, &place(row))).collect());
            let mut rows =
                rows.into_iter().zip(shown).filter(|(_, shown)| *shown).map(|(row, _)| row).peekable();
            while found.len() < most {
                let next_here = here.peek().map(|(cookie, ..)| *cookie).filter(|cookie| *cookie <= until);
                let next_row = rows.peek().map(|row| row.cookie);
                match (next_here, next_row) {
                    (None, None) => break,
                    (Some(cookie), row) if row.is_none_or(|row| cookie <= row) => {
                        let (cookie, name, ino) = here.next().expect("it was peeked at");
                        if let Ok(attributes) = shared.attributes_of(ino) {
                            found.push(DirectoryEntry { cookie, name, attributes });
                        }
                    }
                    _ => {
                        let row = rows.next().expect("it was peeked at");
                        if found.last().is_some_and(|last| last.cookie == row.cookie) {
                            continue;
                        }
                        let ino = shared.inodes.number(directory, &row.entry.name)?;
                        let is_changed = shared.opens.is_open(ino) || shared.contents.has(ino);
                        let attributes = match is_changed {
                            true => shared.attributes_of(ino)?,
                            false => attributes_of_row(ino, &row),
                        };
                        found.push(DirectoryEntry { cookie: row.cookie, name: row.entry.name, attributes });
                    }
                }
            }
            if found.len() >= most || rows_end {
                return Ok(found);
            }
            at = until;
        }
    }

    /// Changes what a file has beside its bytes.
    pub(super) async fn change_meta(
        &self,
        ino: Ino,
        asked: Asked,
        change: impl FnOnce(&mut Meta) -> Result<(), FolderError>,
    ) -> Result<(), FolderError> {
        if ino == Ino::ROOT {
            return Err(FolderError::Unsupported("the folder's top directory has no attributes of its own"));
        }
        if self.answered(asked).is_some() {
            return Ok(());
        }
        self.shared.check_writable()?;
        let meta = self.meta_of(ino).await?;
        check_may_change(&self.shared.node_or_remote(ino)?)?;
        self.shared.ledger.change(|tree| {
            let node = begins_to_differ(self.shared.node_in(tree, ino)?);
            if node.local.is_none() {
                return Err(FolderError::NotFound);
            }
            let generation = node.meta.as_ref().map_or(0, |here| here.generation) + 1;
            let mut meta = node.meta_here().cloned().unwrap_or(meta);
            change(&mut meta)?;
            let node = Node { meta: Some(MetaHere { generation, meta }), ..node };
            let step = Step { request: asked.request, ..Step::one(ino, Some(node)) };
            Ok((self.shared.with_parents(tree, step)?, ()))
        })
    }

    /// What a file has beside its bytes. Asks the remote if that was never seen.
    pub(super) async fn meta_of(&self, ino: Ino) -> Result<Meta, FolderError> {
        if ino == Ino::ROOT {
            return Ok(Meta::default());
        }
        if let Some(meta) = self.shared.node_or_remote(ino)?.meta_here() {
            return Ok(meta.clone());
        }
        let known = self.shared.known_of(ino)?.ok_or(FolderError::NotFound)?;
        if known.kind == Kind::Directory {
            return Ok(Meta::default());
        }
        self.refresher.look(&known.place).await?;
        let row = self.shared.entries.get(known.place.parent, &known.place.name);
        row.and_then(|row| row.entry.meta)
            .ok_or_else(|| FolderError::Unavailable("the server does not tell the file's attributes".into()))
    }
}

/// The path of a name in a directory.
pub(super) fn joined(above: &str, name: &Name) -> String {
    if above.is_empty() { name.to_string() } else { format!("{above}/{name}") }
}

/// Without a name, only what has to be removed at the remote counts.
pub(super) fn nameless(node: Node) -> Node {
    Node { local: None, content: None, meta: None, may_be_written: false, ..node }
}

/// Fails if the account may not change what the remote has.
pub(super) fn check_may_change(node: &Node) -> Result<(), FolderError> {
    match &node.remote {
        Some(known) if !known.is_writable => {
            Err(FolderError::Forbidden("the account may not change this at the server".into()))
        }
        _ => Ok(()),
    }
}
