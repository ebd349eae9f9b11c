//! `holdall diagnostics`.

use crate::api::{Code, Diagnostics};
use crate::drive::Session;
use crate::failure::{CliError, why};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Prints the report, or writes it to a file.
pub async fn run(out: Option<&Path>, session: &Session<'_>) -> Result<(), CliError> {
    let Session { client, output, .. } = session;
    let value = client.get("/v1/diagnostics").await?;
    let bundle: Diagnostics = serde_json::from_value(value.clone())
        .map_err(|error| holdall_client::failure::not_understood(&error.to_string()))?;
    // A person who helps needs the full names of objects.
    let text = if output.json { value.to_string() } else { text(&bundle) };
    let Some(path) = out else { return output.line(&text) };
    write(path, &text)?;
    let told = serde_json::json!({"path": path, "files": bundle.files.len()});
    output.done(&told, &format!("The report is in {}. Read it before you share it.", path.display()))
}

fn text(bundle: &Diagnostics) -> String {
    let files =
        bundle.files.iter().map(|file| format!("==== {} ====\n{}\n", file.name, file.text.trim_end()));
    files.collect::<Vec<_>>().join("\n")
}

/// Writes a file that only its owner can read: it names drives and computers.
fn write(path: &Path, text: &str) -> Result<(), CliError> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
        CliError::new(
            Code::Failed,
            format!("{} cannot be written: {}.", path.display(), why(&error)),
            "No file was overwritten.",
            "Give the name of a file that does not exist yet.",
        )
    })
}
