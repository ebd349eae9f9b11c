//! Programs of the distribution that do part of the work.

use super::confined::Confined;
use super::{Refused, Target};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// The programs, each with its Debian package and what fails without it.
pub const TOOLS: [(&str, &str, &str); 4] = [
    ("mkfs.ext4", "e2fsprogs", "drives cannot be created"),
    ("e2fsck", "e2fsprogs", "a damaged drive cannot be repaired"),
    ("resize2fs", "e2fsprogs", "drives cannot be grown"),
    ("fusermount3", "fuse3", "only root can attach drives where the kernel has no nbd"),
];

/// Where to look for them. A user's PATH has no say in what runs as root, and often lacks the sbin directories.
const DIRECTORIES: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// How much to keep of the end of a tool's output: the last words say why it failed.
const SAID_BYTES_MAX: usize = 4096;

/// The path of a program, if it is installed.
pub fn find(tool: &str) -> Option<PathBuf> {
    DIRECTORIES.iter().map(|directory| Path::new(directory).join(tool)).find(|path| path.exists())
}

/// How a tool ended, and what it printed.
pub(super) struct Ran {
    pub(super) status: ExitStatus,
    pub(super) said: String,
}

/// Runs a tool to its end, with the target's device as its last argument and with no more rights than it needs ([`Confined`]). It dies with
/// this process, which is killed at its deadline.
pub(super) fn run_on(
    (tool, package): (&str, &str),
    args: &[&str],
    target: &Target,
    caller: Option<u32>,
) -> Result<Ran, Refused> {
    let confined = Confined::new(target, caller)?;
    let node = confined.node();
    let mut command = prepare(tool, package)?;
    command.args(args).arg(&node);
    confined.confine(&mut command);
    let mut ran = finish(command, tool, &target.device)?;
    // People know the device, not the node.
    ran.said = ran.said.replace(&node.display().to_string(), &target.device.display().to_string());
    Ok(ran)
}

/// The same for a tool that must succeed.
pub(super) fn run_well_on(
    tool: (&str, &str),
    args: &[&str],
    target: &Target,
    caller: Option<u32>,
) -> Result<(), Refused> {
    let ran = run_on(tool, args, target, caller)?;
    if ran.status.success() { Ok(()) } else { Err(ran.failed(tool.0)) }
}

/// Runs a tool to its end, with root's rights. It dies with this process, which is killed at its deadline.
fn run(tool: &str, package: &str, args: &[&str], path: &Path) -> Result<Ran, Refused> {
    let mut command = prepare(tool, package)?;
    command.args(args).arg(path);
    // SAFETY: prctl is async-signal-safe. This process has one thread, so the thread's death is the process's.
    unsafe {
        command.pre_exec(|| {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            Ok(())
        });
    }
    finish(command, tool, path)
}

fn prepare(tool: &str, package: &str) -> Result<Command, Refused> {
    let missing = || Refused::ToolMissing { tool: tool.to_owned(), package: package.to_owned() };
    let program = find(tool).ok_or_else(missing)?;
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).current_dir("/");
    command.env_clear().env("PATH", DIRECTORIES.join(":")).env("LC_ALL", "C");
    Ok(command)
}

fn finish(mut command: Command, tool: &str, path: &Path) -> Result<Ran, Refused> {
    let output = command.output().map_err(Refused::system(tool, path))?;
    let mut said = output.stdout;
    said.extend_from_slice(&output.stderr);
    let said = &said[said.len().saturating_sub(SAID_BYTES_MAX)..];
    Ok(Ran { status: output.status, said: String::from_utf8_lossy(said).trim().to_owned() })
}

impl Ran {
    /// The error for a tool that should have succeeded.
    pub(super) fn failed(self, tool: &str) -> Refused {
        Refused::ToolFailed { tool: tool.to_owned(), status: self.status.to_string(), said: self.said }
    }
}

/// Runs a tool that must succeed.
pub(super) fn run_well(tool: &str, package: &str, args: &[&str], path: &Path) -> Result<(), Refused> {
    let ran = run(tool, package, args, path)?;
    if ran.status.success() { Ok(()) } else { Err(ran.failed(tool)) }
}
