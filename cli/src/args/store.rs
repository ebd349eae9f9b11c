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

Without --credentials-file the command asks. For S3 the file can be a credentials file of AWS (--profile chooses one of its
profiles), the CSV of a console, or {\"access_key\": ..., \"secret_key\": ...}; for WebDAV it can contain user:password,
{\"user\": ..., \"password\": ...} or {\"token\": ...}.";

/// A command for stores.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Test and save credentials for a store
    ///
    /// They are saved in the desktop's keyring if it is unlocked, else in a file that only you can read. They are used for all
    /// drives in the bucket, or below the WebDAV address; open drives use them at once.
    #[command(after_help = LOGIN_EXAMPLES)]
    Login(Login),
    /// Delete the saved credentials for a store
    #[command(after_help = "Example:\n  holdall store logout s3://my-bucket")]
    Logout {
        /// The store, as holdall store list shows it
        #[arg(value_name = "URL")]
        store: String,
    },
    /// List the stores that you are logged in to
    #[command(after_help = "Example:\n  holdall store list --json | jq -r '.[].store'")]
    List,
    /// Test a store, and show what that means for drives on it
    ///
    /// The test writes a few small objects and deletes them again. Exits with 1 if the store cannot hold a drive.
    #[command(after_help = "Example:\n  holdall store test s3://my-bucket/photos")]
    Test {
        /// The store
        #[arg(value_name = "URL")]
        store: String,
        /// The credentials.
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
    /// The credentials.
    #[command(flatten)]
    pub credentials: CredentialsFrom,
    /// Save the credentials without testing them
    #[arg(long)]
    pub no_check: bool,
    /// Save the credentials in a file even if there is a keyring, so that drives can open before anybody logs in to the desktop
    #[arg(long)]
    pub no_keyring: bool,
}

/// Where credentials come from.
#[derive(Debug, Args)]
pub struct CredentialsFrom {
    /// Read the store's credentials from this file (- is standard input)
    #[arg(long, value_name = "FILE")]
    pub credentials_file: Option<PathBuf>,
    /// Use this profile of the file, or of ~/.aws if no file is given; ~/.aws is read again whenever keys are needed
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
}
