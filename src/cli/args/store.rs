//! The grammar of `holdall store`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  holdall store login s3://my-bucket
  holdall store login https://cloud.example.org/remote.php/dav/files/ann
  holdall store test s3://my-bucket/photos
  holdall store list";

const LOGIN_EXAMPLES: &str = "\
Examples:
  holdall store login s3://my-bucket --credentials-file ~/Downloads/accessKeys.csv
  holdall store login 's3://my-bucket?endpoint=https://s3.example.org' --credentials-file ~/.aws/credentials
  holdall store login https://cloud.example.org/remote.php/dav/files/ann
  pass show cloud | holdall store login https://cloud.example.org/dav --credentials-file -

Without --credentials-file it asks. For S3 the file may be one of AWS's (--profile says which of several), the CSV of a
console, or {\"access_key\": ..., \"secret_key\": ...}; for WebDAV user:password, {\"user\": ..., \"password\": ...}
or {\"token\": ...}.";

/// What to do with a store.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Keep credentials for a store
    ///
    /// They are kept in the keyring of the desktop where there is one that is open, else in a file that only you can
    /// read. They serve all drives in the bucket, or below the WebDAV address. Drives that are open go on with them.
    #[command(after_help = LOGIN_EXAMPLES)]
    Login(Login),
    /// Forget the credentials for a store
    #[command(after_help = "Example:\n  holdall store logout s3://my-bucket")]
    Logout {
        /// The store, as holdall store list shows it
        #[arg(value_name = "URL")]
        store: String,
    },
    /// List the stores that credentials are kept for
    #[command(after_help = "Example:\n  holdall store list --json | jq -r '.[].store'")]
    List,
    /// Try what a store can do, and say what that means for drives on it
    ///
    /// It writes a few small objects and deletes them again. Exits with 1 if no drive can be on this store.
    #[command(after_help = "Example:\n  holdall store test s3://my-bucket/photos")]
    Test {
        /// The store
        #[arg(value_name = "URL")]
        store: String,
        /// Who asks.
        #[command(flatten)]
        credentials: CredentialsFrom,
    },
}

/// `store login`.
#[derive(Debug, Args)]
pub struct Login {
    /// The store: a bucket, or a WebDAV address
    #[arg(value_name = "URL")]
    pub store: String,
    /// Who asks.
    #[command(flatten)]
    pub credentials: CredentialsFrom,
    /// Do not try them first
    #[arg(long)]
    pub no_check: bool,
    /// Keep them in a file even where there is a keyring, so that drives can be opened before anybody logs in
    #[arg(long)]
    pub no_keyring: bool,
}

/// Where credentials come from.
#[derive(Debug, Args)]
pub struct CredentialsFrom {
    /// Read the store's credentials from this file (- is standard input)
    #[arg(long, value_name = "FILE")]
    pub credentials_file: Option<PathBuf>,
    /// Use this profile of the file; without a file, of ~/.aws, looked up again whenever it is needed
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
}
