//! Registers the files of a user's folder for FUSE passthrough, which only root may.
//!
//! A registered file is read and written by the kernel with the rights of the process that registered it, whatever the descriptor was opened
//! for. So for each folder there is a process that becomes the user and keeps one capability, CAP_SYS_ADMIN, which the call asks for. It
//! registers nothing but regular files of that user's, in the folder's own directory, with that user's own mount: nothing that the user
//! could not write anyway.
//!
//! The process holds /dev/fuse, which keeps the mount's connection. It ends when the daemon's end of the socket closes, so that a daemon
//! that is killed is noticed by the kernel as if there were no such process.
//!
//! **An answer belongs to its order.** One that slipped by one would give a program another file's bytes. So answers carry the number of
//! their order, and after anything but an answer or a refusal the daemon never uses the process again.

use super::deputy::Running;
use super::{Outcome, Refused, admit, wire};
use holdall_kernel::passthrough;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Files that may be registered at a time: each is a file that the kernel holds open, and that no limit of the user's counts.
const REGISTERED_MAX: usize = 16 << 10;

/// How long an order may take. Each is one system call, and programs that open files wait for it.
const ORDER_DEADLINE: Duration = Duration::from_secs(2);

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Order {
    number: u64,
    what: What,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum What {
    /// Registers the file that comes along; answers with its backing id.
    Register,
    /// Ends a registration of this process's.
    Unregister(u32),
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Answer {
    number: u64,
    done: Result<u32, Refused>,
}

/// Why a file was not registered, or a registration not ended.
#[derive(Debug, thiserror::Error)]
pub enum PassingError {
    /// This one is refused. Others may be asked for.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The process is gone, or what it says makes no sense. Drop it, and start another one. What it has registered stays so until the
    /// folder is unmounted.
    #[error("the process that registers files for passthrough does not answer: {0}")]
    Lost(String),
}

/// The process that registers a folder's files. Dropping it ends it; what is registered stays so.
#[derive(Debug)]
pub struct Passing {
    socket: UnixStream,
    last: u64,
    is_lost: bool,
    _process: Option<Running>,
}

impl Passing {
    pub(super) fn new(process: Running) -> std::io::Result<Self> {
        let socket = process.socket.try_clone()?;
        Ok(Self { _process: Some(process), ..Self::over(socket)? })
    }

    fn over(socket: UnixStream) -> std::io::Result<Self> {
        socket.set_write_timeout(Some(ORDER_DEADLINE))?;
        socket.set_read_timeout(Some(ORDER_DEADLINE))?;
        Ok(Self { socket, last: 0, is_lost: false, _process: None })
    }

    /// Registers `file`, which is open for reading only. Returns its backing id. Waits at most two seconds.
    pub fn register(&mut self, file: BorrowedFd<'_>) -> Result<u32, PassingError> {
        self.order(What::Register, &[file])
    }

    /// Ends a registration. Waits at most two seconds.
    pub fn unregister(&mut self, id: u32) -> Result<(), PassingError> {
        self.order(What::Unregister(id), &[]).map(drop)
    }

    /// Whether the process is of no use any more.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    fn order(&mut self, what: What, fds: &[BorrowedFd<'_>]) -> Result<u32, PassingError> {
        if self.is_lost {
            return Err(PassingError::Lost("an earlier order had no answer".into()));
        }
        // Until the answer is there.
        self.is_lost = true;
        self.last += 1;
        let answer = self.exchange(Order { number: self.last, what }, fds);
        let Answer { number, done } = answer.map_err(|error| PassingError::Lost(error.to_string()))?;
        if number != self.last {
            return Err(PassingError::Lost(format!("answer {number} came for order {}", self.last)));
        }
        self.is_lost = false;
        Ok(done?)
    }

    fn exchange(&self, order: Order, fds: &[BorrowedFd<'_>]) -> std::io::Result<Answer> {
        wire::send(&self.socket, &order, fds)?;
        wire::receive::<Answer>(&self.socket).map(|(answer, _)| answer)
    }
}

/// Serves the daemon at the other end of the socket, until it is gone. `fds`: /dev/fuse, and the directory in which the files lie.
pub(super) fn serve(socket: &UnixStream, mountpoint: &Path, fds: Vec<OwnedFd>, caller: u32) {
    let ready = admit::pass_through(mountpoint, fds, caller);
    let answer = ready.as_ref().map(|_| Outcome::Done).map_err(Clone::clone);
    if wire::send(socket, &answer, &[]).is_err() {
        return;
    }
    let Ok(admit::Folder { device, directory }) = ready else { return };
    let mut registered = BTreeSet::new();
    while let Ok((Order { number, what }, fds)) = wire::receive::<Order>(socket) {
        let done = match what {
            What::Register if registered.len() >= REGISTERED_MAX => {
                Err(Refused::system("register", mountpoint)(Errno::MFILE))
            }
            What::Register => register(&device, &directory, &fds, caller, mountpoint),
            What::Unregister(id) if registered.contains(&id) => {
                let ended = passthrough::unregister(device.as_fd(), id);
                ended.map(|()| id).map_err(Refused::system("FUSE_DEV_IOC_BACKING_CLOSE", mountpoint))
            }
            What::Unregister(_) => Err(Refused::NotOurs { what: mountpoint.to_owned() }),
        };
        match (&what, &done) {
            (What::Register, Ok(id)) => drop(registered.insert(*id)),
            (What::Unregister(id), Ok(_)) => drop(registered.remove(id)),
            (_, Err(_)) => {}
        }
        if wire::send(socket, &Answer { number, done }, &[]).is_err() {
            return;
        }
    }
}

fn register(
    device: &OwnedFd,
    directory: &OwnedFd,
    fds: &[OwnedFd],
    caller: u32,
    mountpoint: &Path,
) -> Result<u32, Refused> {
    let [file] = fds else { return Err(Refused::NoDescriptor) };
    admit::file_of(file, directory, caller)?;
    passthrough::register(device.as_fd(), file.as_fd())
        .map_err(Refused::system("FUSE_DEV_IOC_BACKING_OPEN", mountpoint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Privileged, SUBCOMMAND};
    use rustix::fs::OFlags;
    use rustix::mount::{MountFlags, UnmountFlags};
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::chown;
    use std::process::{Child, Command, Stdio};

    const USER: u32 = 4242;

    #[test]
    fn an_answer_to_another_order_ends_the_exchange() {
        let (here, there) = UnixStream::pair().unwrap();
        let mut passing = Passing::over(here).unwrap();
        let peer = std::thread::spawn(move || {
            let answers = [
                Answer { number: 1, done: Ok(7) },
                Answer { number: 2, done: Err(Refused::NoDescriptor) },
                Answer { number: 2, done: Ok(9) },
            ];
            for answer in answers {
                wire::receive::<Order>(&there).unwrap();
                wire::send(&there, &answer, &[]).unwrap();
            }
            // The fourth order never comes.
            wire::receive::<Order>(&there).unwrap_err().kind()
        });
        let file = File::open("/dev/null").unwrap();
        assert_eq!(passing.register(file.as_fd()).unwrap(), 7);
        assert!(matches!(passing.register(file.as_fd()), Err(PassingError::Refused(Refused::NoDescriptor))));
        assert!(!passing.is_lost());
        assert!(matches!(passing.register(file.as_fd()), Err(PassingError::Lost(_))));
        assert!(matches!(passing.unregister(7), Err(PassingError::Lost(_))));
        assert!(passing.is_lost());
        drop(passing);
        assert_eq!(peer.join().unwrap(), std::io::ErrorKind::UnexpectedEof);
    }

    /// A mount of a user's folder, which nobody serves beyond its first exchange.
    struct Mount {
        device: OwnedFd,
        at: tempfile::TempDir,
    }

    impl Mount {
        fn of(user: u32) -> Self {
            let at = tempfile::tempdir().unwrap();
            let device =
                rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, rustix::fs::Mode::empty())
                    .unwrap();
            let data = format!("fd={},rootmode=40000,user_id={user},group_id={user}", device.as_raw_fd());
            let data = std::ffi::CString::new(data).unwrap();
            let kind = holdall_kernel::FOLDER_FS_TYPE;
            rustix::mount::mount("test", at.path(), kind, MountFlags::NOSUID, Some(data.as_c_str())).unwrap();
            let mut request = vec![0; 16 << 10];
            rustix::io::read(&device, &mut request[..]).unwrap();
            rustix::io::write(&device, &passes_through(&request[8..16])).unwrap();
            Self { device, at }
        }
    }

    impl Drop for Mount {
        fn drop(&mut self) {
            let _ = rustix::mount::unmount(self.at.path(), UnmountFlags::DETACH);
        }
    }

    /// The answer to INIT that asks for passthrough (`struct fuse_init_out`).
    fn passes_through(unique: &[u8]) -> Vec<u8> {
        let mut answer = [80u32.to_le_bytes(), 0u32.to_le_bytes()].concat();
        answer.extend_from_slice(unique);
        let init_ext = 1 << 30;
        answer.extend([7u32, 41, 0, init_ext].iter().flat_map(|word| word.to_le_bytes()));
        answer.extend([12u16, 9].iter().flat_map(|word| word.to_le_bytes()));
        answer.extend([4096u32, 1, 1, 1 << (37 - 32), 2].iter().flat_map(|word| word.to_le_bytes()));
        answer.resize(80, 0);
        answer
    }

    struct Serving {
        child: Child,
        passing: Passing,
        begun: Result<Outcome, Refused>,
    }

    impl Serving {
        /// Has the helper's program serve the mount for the user.
        fn start(mount: &Mount, device: &OwnedFd, directory: &Path, user: u32) -> Self {
            let test = std::env::current_exe().unwrap();
            let program = test.parent().unwrap().parent().unwrap().join("holdall-helper");
            assert!(program.exists(), "{} is missing: cargo build -p holdall-helper", program.display());
            let (socket, theirs) = UnixStream::pair().unwrap();
            let mut command = Command::new(program);
            let child =
                command.arg(SUBCOMMAND).stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).spawn().unwrap();
            drop(command);
            let operation = Privileged::PassThrough { mountpoint: mount.at.path().to_owned() };
            let directory = File::open(directory).unwrap();
            crate::begin(&socket, operation, user, &[device.as_fd(), directory.as_fd()], 0).unwrap();
            let passing = Passing::over(socket).unwrap();
            let (begun, _) = wire::receive(&passing.socket).unwrap();
            Self { child, passing, begun }
        }
    }

    impl Drop for Serving {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    #[test]
    fn a_users_files_are_registered_by_a_process_with_one_capability() {
        assert!(rustix::process::geteuid().is_root(), "only root can become another user");
        let files = tempfile::tempdir().unwrap();
        let file = |name: &str, owner| {
            let path = files.path().join(name);
            std::fs::write(&path, "text").unwrap();
            chown(&path, Some(owner), None).unwrap();
            File::open(&path).unwrap()
        };
        let (own, roots) = (file("own", USER), file("roots", 0));
        chown(files.path(), Some(USER), None).unwrap();
        let mount = Mount::of(USER);
        let mut serving = Serving::start(&mount, &mount.device, files.path(), USER);
        assert_eq!(serving.begun, Ok(Outcome::Done));
        let status = std::fs::read_to_string(format!("/proc/{}/status", serving.child.id())).unwrap();
        let fact = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap().split_whitespace().next().unwrap().to_owned()
        };
        for set in ["CapPrm", "CapEff", "CapBnd"] {
            assert_eq!(fact(set), "0000000000200000", "{set}");
        }
        assert_eq!((fact("Uid"), fact("NoNewPrivs")), (USER.to_string(), "1".to_owned()));
        let passing = &mut serving.passing;
        let id = passing.register(own.as_fd()).unwrap();
        assert_ne!(passing.register(own.as_fd()).unwrap(), id);
        let refused = |result| matches!(result, Err(PassingError::Refused(_)));
        assert!(refused(passing.register(roots.as_fd())));
        passing.unregister(id).unwrap();
        assert!(refused(passing.unregister(id).map(|()| 0)), "it is over");
        assert!(refused(passing.unregister(4_000_000).map(|()| 0)), "it never was");
        assert!(!passing.is_lost());
        // It ends with the daemon.
        passing.socket.shutdown(std::net::Shutdown::Both).unwrap();
        assert!(crate::ended(&serving.child, Duration::from_secs(10)));
    }

    #[test]
    fn other_peoples_mounts_and_directories_are_refused() {
        let files = tempfile::tempdir().unwrap();
        let (mount, roots) = (Mount::of(USER), Mount::of(0));
        let begun = |mount: &Mount, device: &OwnedFd, user| {
            Serving::start(mount, device, files.path(), user).begun.clone()
        };
        let is_refused = |begun| matches!(begun, Err(Refused::NotYours { .. }));
        assert!(is_refused(begun(&mount, &mount.device, USER)), "the directory is root's");
        chown(files.path(), Some(USER), None).unwrap();
        assert_eq!(begun(&mount, &mount.device, USER), Ok(Outcome::Done));
        assert!(is_refused(begun(&roots, &roots.device, USER)), "the mount is root's");
        let null = OwnedFd::from(File::open("/dev/null").unwrap());
        assert!(is_refused(begun(&mount, &null, USER)));
    }
}
