//! Conflicts that wait for a person, and settling them.

use super::conflicts::Kept;
use super::works::Works;
use super::{Conflict, Keep};
use crate::folder::api::{FolderError, Stale};
use crate::folder::entries::Lookup;
use crate::folder::names::{begins_to_differ, joined, nameless};
use crate::folder::node::{Ino, Node, Place};
use crate::folder::step::Step;
use crate::folder::tree::{Child, Tree};
use crate::folder::view::Seen;
use crate::store::remote::{Kind, Version};

impl Works {
    /// Conflicts that nobody has settled, also not by renaming or removing one of the files.
    pub(super) fn conflicts(&self) -> Vec<(Kept, Conflict)> {
        let all = self.conflicts.all().into_iter();
        all.filter_map(|kept| self.conflict(&kept).map(|conflict| (kept, conflict))).collect()
    }

    fn conflict(&self, kept: &Kept) -> Option<Conflict> {
        let ours = self.shared.place_here(kept.ours).ok()??;
        if ours == kept.theirs || !self.is_taken(&kept.theirs) {
            return None;
        }
        let path = |place: &Place| joined(&self.path_here(place.parent), &place.name);
        let Version { len, written, .. } = &kept.version;
        Some(Conflict {
            path: path(&kept.theirs),
            kept_as: path(&ours),
            at_ms: kept.at_ms,
            our_len: kept.our_len,
            their_len: *len,
            their_time_ms: written.and_then(|time| u64::try_from(time.0 / 1_000_000).ok()),
        })
    }

    /// Whether something has the name here, as far as is known.
    fn is_taken(&self, place: &Place) -> bool {
        match self.shared.ledger.read(|tree| tree.child(place)) {
            Child::Here(_) => true,
            Child::Hidden => false,
            Child::AsRemote => self.shared.entries.lookup(place.parent, &place.name) != Lookup::Absent,
        }
    }

    /// Settles a conflict.
    pub(super) async fn keep(&self, path: &str, keep: Keep) -> Result<(), FolderError> {
        self.shared.check_writable()?;
        let is_it = |(_, conflict): &(Kept, Conflict)| conflict.path == path || conflict.kept_as == path;
        let (kept, _) = self.conflicts().into_iter().find(is_it).ok_or(FolderError::NotFound)?;
        match keep {
            Keep::Both => {}
            Keep::Mine => self.take_name_back(&kept)?,
            Keep::Theirs => self.remove_ours(&kept)?,
        }
        // Durable before the conflict is forgotten.
        self.shared.ledger.sync().await?;
        Ok(self.conflicts.settle(kept.ours).await?)
    }

    /// Ours replaces theirs, as a rename would.
    fn take_name_back(&self, kept: &Kept) -> Result<(), FolderError> {
        let (shared, place) = (&self.shared, &kept.theirs);
        let there = match shared.see(place)? {
            Seen::Node(ino) | Seen::Row(ino, _) => Some((ino, shared.node_or_remote(ino)?)),
            Seen::Nothing => None,
            Seen::Unknown => {
                let why = "the directory has not been listed yet: open it, and try again";
                return Err(FolderError::Unavailable(why.into()));
            }
        };
        if there.as_ref().is_some_and(|(_, theirs)| theirs.kind == Kind::Directory) {
            return Err(FolderError::IsDirectory);
        }
        let (ours, from) = self.ours(kept)?;
        shared.ledger.change(|tree| {
            let ours = self.unchanged(tree, kept.ours, &ours)?;
            let mut states = vec![(kept.ours, Some(Node { local: Some(place.clone()), ..ours }))];
            if let Some((ino, theirs)) = &there {
                states.push((*ino, Some(nameless(self.unchanged(tree, *ino, theirs)?))));
            } else if tree.here(place).is_some() {
                return Err(FolderError::Stale);
            }
            Ok((shared.with_parents(tree, Step::of(states))?, ()))
        })?;
        there.into_iter().for_each(|(ino, _)| shared.lost_name(ino));
        self.tell_names([place.clone(), from]);
        Ok(())
    }

    fn remove_ours(&self, kept: &Kept) -> Result<(), FolderError> {
        let (ours, place) = self.ours(kept)?;
        self.shared.ledger.change(|tree| {
            let step = Step::one(kept.ours, Some(nameless(self.unchanged(tree, kept.ours, &ours)?)));
            Ok::<_, FolderError>((self.shared.with_parents(tree, step)?, ()))
        })?;
        self.shared.lost_name(kept.ours);
        self.tell_names([place]);
        Ok(())
    }

    fn ours(&self, kept: &Kept) -> Result<(Node, Place), FolderError> {
        let node = begins_to_differ(self.shared.node_or_remote(kept.ours)?);
        let place = node.local.clone().ok_or(FolderError::NotFound)?;
        Ok((node, place))
    }

    /// The node as it is now, if it has the same place as when it was looked at.
    fn unchanged(&self, tree: &Tree, ino: Ino, before: &Node) -> Result<Node, FolderError> {
        let node = self.shared.node_in(tree, ino)?;
        match node.local == before.local {
            true => Ok(begins_to_differ(node)),
            false => Err(FolderError::Stale),
        }
    }

    fn tell_names(&self, places: impl IntoIterator<Item = Place>) {
        for Place { parent, name } in places {
            let _ = self.shared.stale.send(Stale::Entry { parent, name });
        }
    }
}
