//! fio, which drives both sides in the same way.

use super::Failure;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A target to read or write.
pub enum Target<'a> {
    /// A file or a block device.
    File(&'a Path),
    /// An NBD server at a Unix socket.
    Nbd(&'a Path),
}

/// The part of a job's result that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Requests per second.
    Iops,
    /// MiB per second.
    MebibytesPerSecond,
}

/// Runs one job over the first `bytes` of `target`.
pub fn run(target: &Target<'_>, bytes: u64, arguments: &[&str], figure: Figure) -> Result<f64, Failure> {
    let mut command = Command::new("fio");
    command.args([
        "--name=job",
        "--output-format=json",
        "--thread",
        "--group_reporting",
        "--allow_file_create=0",
    ]);
    command.arg(format!("--size={bytes}"));
    match target {
        Target::File(path) => command.arg(format!("--filename={}", path.display())),
        Target::Nbd(socket) => {
            command.args(["--ioengine=nbd", &format!("--uri=nbd+unix:///?socket={}", socket.display())])
        }
    };
    let output = command
        .args(arguments)
        .output()
        .map_err(|error| format!("fio: {error}; it is in the package fio"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = || format!("fio {arguments:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(failed().into());
    }
    // fio may print something before the JSON.
    let json = said.find('{').ok_or_else(failed)?;
    let result: Value = serde_json::from_str(&said[json..])?;
    let job = &result["jobs"][0];
    let side = if job["read"]["total_ios"].as_u64() > Some(0) { &job["read"] } else { &job["write"] };
    let (field, unit) = match figure {
        Figure::Iops => ("iops", 1.0),
        Figure::MebibytesPerSecond => ("bw_bytes", f64::from(1 << 20)),
    };
    Ok(side[field].as_f64().ok_or_else(failed)? / unit)
}

/// Arguments for a job that runs for `ms`, repeatedly over its range.
pub fn for_ms(ms: u64) -> [String; 2] {
    ["--time_based".to_owned(), format!("--runtime={ms}ms")]
}
