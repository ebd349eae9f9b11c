//! Replacing and removing a file that programs may have open.
//!
//! Looking at a file and then removing it by its name could remove another one that has taken the name meanwhile. So the file first gets a
//! temporary name by one rename, is looked at there, and comes back if it is not the one that was meant, or if a program has begun to write to
//! it: that breaks the lease, which was taken while nobody could write.

use super::{TreeError, check_rests, is_same_file, look, open_file, rename_over_nothing, temporary};
use crate::disk::real::lease;
use crate::store::remote::Kind;
use crate::watched::row::Print;
use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::OwnedFd;

/// A lease on a file that nobody can write to now, if it can have one.
struct Lease(Option<(File, bool)>);

impl Lease {
    fn on(directory: &OwnedFd, name: &str, print: &Print) -> Result<Self, TreeError> {
        let here = look(directory, name)?;
        if here.print != *print {
            return Err(TreeError::Changed);
        }
        if here.kind != Kind::File {
            return Ok(Self(None));
        }
        let file = open_file(directory, name)?;
        check_rests(&file)?;
        let is_leased = lease::holds(&file);
        Ok(Self(Some((file, is_leased))))
    }

    /// Whether nobody has opened the file for writing since.
    fn holds(&self) -> bool {
        self.0.as_ref().is_none_or(|(file, is_leased)| !is_leased || lease::holds(file))
    }
}

/// Removes a file or link.
pub(super) fn remove(directory: &OwnedFd, name: &str, print: &Print) -> Result<(), TreeError> {
    let lease = Lease::on(directory, name, print)?;
    let aside = temporary();
    rename_over_nothing((directory, name), (directory, &aside))?;
    let is_it = look(directory, &aside).is_ok_and(|here| is_same_file(&here.print, print));
    if !is_it || !lease.holds() {
        rename_over_nothing((directory, &aside), (directory, name))?;
        return Err(if is_it { TreeError::InUse } else { TreeError::Changed });
    }
    rustix::fs::unlinkat(directory, &*aside, AtFlags::empty())?;
    Ok(rustix::fs::fsync(directory)?)
}

/// Gives the file `new` the name of the one that looks as `print` says, which is removed.
pub(super) fn exchange(directory: &OwnedFd, new: &str, name: &str, print: &Print) -> Result<(), TreeError> {
    let lease = Lease::on(directory, name, print)?;
    let swap = || rustix::fs::renameat_with(directory, new, directory, name, RenameFlags::EXCHANGE);
    match swap() {
        // This file system cannot exchange names.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            if !lease.holds() {
                return Err(TreeError::InUse);
            }
            rustix::fs::renameat(directory, new, directory, name)?;
        }
        swapped => {
            swapped?;
            let is_it = look(directory, new).is_ok_and(|here| is_same_file(&here.print, print));
            if !is_it || !lease.holds() {
                swap()?;
                return Err(if is_it { TreeError::InUse } else { TreeError::Changed });
            }
            // The new name is durable before the old bytes go.
            rustix::fs::fsync(directory)?;
            rustix::fs::unlinkat(directory, new, AtFlags::empty())?;
        }
    }
    Ok(rustix::fs::fsync(directory)?)
}
