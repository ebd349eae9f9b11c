//! Which local file is registered with the kernel for which inode. Pure.
//!
//! The kernel's rule: while anybody has an inode open by passthrough, every further open of it has to be answered with the same backing id,
//! else the program gets EIO. So an inode has one registration, from its first open to its last release, counted by handles: an open that
//! the kernel refused is released too, and must not take another one's place.
//!
//! The kernel ends its own count for an open before it sends the release, and begins it after our answer. So an inode that counts no open
//! here has none there, and may be registered anew.

use holdall_core::folder::Ino;
use holdall_core::folder::api::Handle;
use std::collections::HashMap;

/// The registrations of a mount.
#[derive(Debug, Default)]
pub(super) struct BackingIds {
    registered: HashMap<Ino, Registration>,
    opens: HashMap<Handle, Ino>,
}

#[derive(Debug)]
struct Registration {
    id: u32,
    opens: usize,
}

impl BackingIds {
    /// Another open of an inode that is registered: with this id. An open that the kernel asks for again counts once.
    pub fn join(&mut self, ino: Ino, handle: Handle) -> Option<u32> {
        let registration = self.registered.get_mut(&ino)?;
        if self.opens.insert(handle, ino).is_none() {
            registration.opens += 1;
        }
        Some(registration.id)
    }

    /// The first open of an inode, which was just registered.
    pub fn begin(&mut self, ino: Ino, handle: Handle, id: u32) {
        let before = self.registered.insert(ino, Registration { id, opens: 1 });
        assert!(before.is_none(), "an inode is registered once");
        assert_eq!(self.opens.insert(handle, ino), None, "a handle is opened once");
    }

    /// An inode that was registered by the last daemon, with the handles that are open by that.
    pub fn restore(&mut self, ino: Ino, id: u32, handles: &[Handle]) {
        if !handles.is_empty() {
            self.registered.insert(ino, Registration { id, opens: handles.len() });
            self.opens.extend(handles.iter().map(|handle| (*handle, ino)));
        }
    }

    /// A handle is released. Returns the id that nobody uses any more.
    pub fn release(&mut self, handle: Handle) -> Option<u32> {
        let ino = self.opens.remove(&handle)?;
        let registration = self.registered.get_mut(&ino).expect("an open handle's inode is registered");
        registration.opens -= 1;
        if registration.opens > 0 {
            return None;
        }
        self.registered.remove(&ino).map(|registration| registration.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_opens_of_an_inode_share_one_id_until_the_last_release() {
        let mut ids = BackingIds::default();
        let ino = Ino(7);
        assert_eq!(ids.join(ino, Handle(1)), None);
        ids.begin(ino, Handle(1), 40);
        assert_eq!(ids.join(ino, Handle(2)), Some(40));
        assert_eq!(ids.join(Ino(8), Handle(3)), None, "another inode has none");
        assert_eq!(ids.release(Handle(1)), None);
        assert_eq!(ids.release(Handle(2)), Some(40));
        assert_eq!(ids.join(ino, Handle(4)), None, "it is over");
        ids.begin(ino, Handle(4), 41);
        assert_eq!(ids.release(Handle(4)), Some(41));
    }

    #[test]
    fn what_the_last_daemon_registered_goes_on() {
        let mut ids = BackingIds::default();
        ids.restore(Ino(7), 40, &[Handle(1), Handle(2)]);
        ids.restore(Ino(8), 41, &[]);
        assert_eq!(ids.join(Ino(7), Handle(3)), Some(40));
        assert_eq!(ids.join(Ino(7), Handle(2)), Some(40), "the kernel had no answer to this one");
        assert_eq!((ids.release(Handle(1)), ids.release(Handle(3))), (None, None));
        assert_eq!(ids.release(Handle(2)), Some(40));
        assert_eq!(ids.join(Ino(8), Handle(4)), None);
    }

    #[test]
    fn the_release_of_a_served_open_ends_no_registration() {
        let mut ids = BackingIds::default();
        ids.begin(Ino(7), Handle(1), 40);
        assert_eq!(ids.release(Handle(9)), None);
        assert_eq!(ids.release(Handle(9)), None);
        assert_eq!(ids.join(Ino(7), Handle(2)), Some(40));
        assert_eq!(ids.release(Handle(2)), None);
        assert_eq!(ids.release(Handle(2)), None, "a second release of a handle counts for nothing");
        assert_eq!(ids.release(Handle(1)), Some(40));
    }
}
