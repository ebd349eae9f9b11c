//! The address of a store, as people write it and as it is remembered.
//!
//! * `/path`, `~/path`, `file:///path`: a directory.
//! * `s3://bucket/prefix?endpoint=https://host:port&region=eu-central-1&path_style=true&ca=/path/to/ca.pem`.
//! * `https://host/path?ca=...`, `http://`, `davs://`, `dav://`: a collection on a WebDAV server.
//!
//! No URL holds a user or a password: those are credentials, which the engine and the daemon keep apart.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use std::fmt;
use std::path::{Component, Path, PathBuf};
use url::Url;

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUrl {
    /// A directory on this computer.
    File(PathBuf),
    /// A bucket, or part of it.
    S3(S3Url),
    /// A collection.
    Dav(DavUrl),
}

/// A bucket, or part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Url {
    /// The bucket.
    pub bucket: String,
    /// The common beginning of all names, without `/` at either end; may be empty.
    pub prefix: String,
    /// The server, if it is not Amazon's.
    pub endpoint: Option<Url>,
    /// The region to sign for.
    pub region: Option<String>,
    /// Whether the bucket is in the path instead of the host name. The default is true if an endpoint is given.
    pub path_style: bool,
    /// Certificates (PEM) to trust in addition to the system's.
    pub ca: Option<PathBuf>,
}

/// A collection on a WebDAV server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DavUrl {
    /// Its address, `http` or `https`, with a `/` at its end.
    pub base: Url,
    /// Certificates (PEM) to trust in addition to the system's.
    pub ca: Option<PathBuf>,
}

/// Why a text is not a store's address.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The scheme is unknown.
    #[error(
        "{} is not a store's address: that is s3://BUCKET, https://HOST/PATH (WebDAV), or a directory such as /mnt/disk/drive or ~/drive",
        subject(url)
    )]
    Scheme {
        /// The given text, without secrets.
        url: String,
    },
    /// Not an absolute path on this computer.
    #[error(
        "{} is no directory of this computer: write its whole path, such as /mnt/disk/drive or ~/drive",
        subject(url)
    )]
    Relative {
        /// The given text, without secrets.
        url: String,
    },
    /// Not readable as a URL.
    #[error("{url} is no address: {reason}")]
    Malformed {
        /// The given text, without secrets.
        url: String,
        /// The mistake.
        reason: String,
    },
    /// It contains a user or a password.
    #[error("an address holds no user and no password: give them with holdall store login")]
    Secret,
}

/// The given text, as the subject of a sentence.
fn subject(url: &str) -> String {
    if url.is_empty() { "what was given".to_owned() } else { format!("the address {url}") }
}

impl StoreUrl {
    /// Reads what a person typed: an address, or a directory's path as shells and file managers write it. `~` stands for `home`.
    ///
    /// Remembered addresses are read by [`Self::parse`] instead, which takes a file's address letter by letter, as it always has.
    pub fn read(text: &str, home: Option<&Path>) -> Result<Self, UrlError> {
        let text = text.trim();
        let relative = || UrlError::Relative { url: without_secrets(text) };
        if let Some(rest) = text.strip_prefix('~') {
            let rest =
                rest.strip_prefix('/').or_else(|| rest.is_empty().then_some(rest)).ok_or_else(relative)?;
            return directory(&home.ok_or_else(relative)?.join(rest));
        }
        if text.starts_with('/') {
            return directory(Path::new(text));
        }
        if matches!(text, "." | "..") || text.starts_with("./") || text.starts_with("../") {
            return Err(UrlError::Relative { url: String::new() });
        }
        match text.get(..5) {
            Some(scheme) if scheme.eq_ignore_ascii_case("file:") => file(&text[5..]).ok_or_else(relative)?,
            _ => Self::parse(text),
        }
    }

    /// For people: the bucket, the path or the directory, and the server if it is not Amazon's.
    pub fn readable(&self) -> String {
        match self {
            StoreUrl::File(path) => path.display().to_string(),
            StoreUrl::S3(s3) => {
                let slash = if s3.prefix.is_empty() { "" } else { "/" };
                let place = format!("s3://{}{slash}{}", s3.bucket, s3.prefix);
                let server = s3
                    .endpoint
                    .as_ref()
                    .map(|endpoint| &endpoint[url::Position::BeforeHost..url::Position::AfterPort]);
                server.map_or(place.clone(), |server| format!("{place} at {server}"))
            }
            StoreUrl::Dav(dav) => dav.base.as_str().trim_end_matches('/').to_owned(),
        }
    }

    /// Reads an address as [`fmt::Display`] writes it.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if let Some(path) = text.strip_prefix("file://") {
            let absolute = path.starts_with('/') && path.len() > 1;
            return if absolute {
                Ok(StoreUrl::File(path.into()))
            } else {
                Err(UrlError::Relative { url: without_secrets(text) })
            };
        }
        let malformed = |reason: String| UrlError::Malformed { url: without_secrets(text), reason };
        let url = Url::parse(text).map_err(|error| match error {
            url::ParseError::RelativeUrlWithoutBase => UrlError::Scheme { url: without_secrets(text) },
            error => malformed(error.to_string()),
        })?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlError::Secret);
        }
        match url.scheme() {
            "s3" => s3(&url).map(StoreUrl::S3).map_err(malformed),
            "http" | "https" | "dav" | "davs" => dav(text, &url).map(StoreUrl::Dav).map_err(malformed),
            _ => Err(UrlError::Scheme { url: without_secrets(text) }),
        }
    }

    /// As a person would type it, so that [`Self::read`] gives the same: in a file's address `read` would decode per cent signs.
    pub fn given(&self) -> String {
        match self {
            StoreUrl::File(path) => path.display().to_string(),
            StoreUrl::S3(_) | StoreUrl::Dav(_) => self.to_string(),
        }
    }

    /// The place `name`, one part of a path, inside this one.
    pub fn below(&self, name: &str) -> Self {
        match self {
            StoreUrl::File(path) => StoreUrl::File(path.join(name)),
            StoreUrl::S3(s3) => {
                let slash = if s3.prefix.is_empty() { "" } else { "/" };
                StoreUrl::S3(S3Url { prefix: format!("{}{slash}{name}", s3.prefix), ..s3.clone() })
            }
            StoreUrl::Dav(dav) => {
                let mut base = dav.base.clone();
                base.set_path(&format!("{}{}/", dav.base.path(), utf8_percent_encode(name, NOT_ENCODED)));
                StoreUrl::Dav(DavUrl { base, ca: dav.ca.clone() })
            }
        }
    }

    /// The host that is asked; a directory has none.
    pub fn server(&self) -> Option<String> {
        match self {
            StoreUrl::File(_) => None,
            StoreUrl::S3(s3) => match &s3.endpoint {
                Some(endpoint) => endpoint.host_str().map(str::to_owned),
                None => Some("amazonaws.com".to_owned()),
            },
            StoreUrl::Dav(dav) => dav.base.host_str().map(str::to_owned),
        }
    }

    /// Whether requests to the server are unencrypted (HTTP without TLS).
    pub fn is_plain_http(&self) -> bool {
        match self {
            StoreUrl::File(_) => false,
            StoreUrl::S3(s3) => s3.endpoint.as_ref().is_some_and(|endpoint| endpoint.scheme() == "http"),
            StoreUrl::Dav(dav) => dav.base.scheme() == "http",
        }
    }
}

/// Reads what follows `file:`; `None` if it is not an absolute path on this computer (RFC 8089).
fn file(rest: &str) -> Option<Result<StoreUrl, UrlError>> {
    let path = match rest.strip_prefix("//") {
        Some(rest) => {
            let (host, _) = rest.split_once('/')?;
            let is_here = host.is_empty() || host.eq_ignore_ascii_case("localhost");
            is_here.then(|| &rest[host.len()..])?
        }
        None => rest,
    };
    let is_absolute = path.starts_with('/') && !path.trim_matches('/').is_empty();
    is_absolute.then(|| match percent_decoded(path) {
        Ok(path) => directory(Path::new(&path)),
        Err(reason) => Err(UrlError::Malformed { url: "the address of the directory".to_owned(), reason }),
    })
}

/// A directory, always written in the same way.
fn directory(path: &Path) -> Result<StoreUrl, UrlError> {
    let named: PathBuf = path.components().collect();
    let is_strange = path.as_os_str().as_encoded_bytes().contains(&0)
        || path.components().any(|part| part == Component::ParentDir);
    match (is_strange, named.parent()) {
        (false, Some(_)) => Ok(StoreUrl::File(named)),
        // `/` is nobody's store, and where `..` leads depends on links.
        _ => Err(UrlError::Relative { url: String::new() }),
    }
}

fn s3(url: &Url) -> Result<S3Url, String> {
    let bucket = url.host_str().filter(|host| !host.is_empty()).ok_or("it names no bucket")?;
    if url.port().is_some() {
        return Err("a bucket has no port: the server goes into ?endpoint=".into());
    }
    let prefix = percent_decoded(url.path().trim_matches('/'))?;
    let mut parsed = S3Url {
        bucket: bucket.to_owned(),
        prefix,
        endpoint: None,
        region: None,
        path_style: false,
        ca: None,
    };
    let mut path_style = None;
    for (key, value) in url.query_pairs() {
        match &*key {
            "endpoint" => parsed.endpoint = Some(endpoint(&value)?),
            "region" => parsed.region = Some(value.into_owned()),
            "path_style" => {
                path_style = Some(value.parse().map_err(|_| "path_style is true or false".to_owned())?);
            }
            "ca" => parsed.ca = Some(ca(&value)?),
            other => {
                return Err(format!("{other} is no option: there are endpoint, region, path_style and ca"));
            }
        }
    }
    parsed.path_style = path_style.unwrap_or(parsed.endpoint.is_some());
    Ok(parsed)
}

fn endpoint(value: &str) -> Result<Url, String> {
    let mut url = Url::parse(value).map_err(|error| format!("its endpoint is no address ({error})"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() || url.password().is_some() {
        return Err("an endpoint is https://host or http://host, without a user".into());
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

fn dav(text: &str, url: &Url) -> Result<DavUrl, String> {
    // `set_scheme` refuses to turn a scheme that it does not know into one that it does.
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    let scheme = if matches!(url.scheme(), "https" | "davs") { "https" } else { "http" };
    let mut base = Url::parse(&format!("{scheme}://{rest}")).map_err(|error| error.to_string())?;
    let mut trusted = None;
    for (key, value) in base.clone().query_pairs() {
        match &*key {
            "ca" => trusted = Some(ca(&value)?),
            other => return Err(format!("{other} is no option: there is ca")),
        }
    }
    base.set_query(None);
    base.set_fragment(None);
    // Servers treat several slashes in a row as one, and answer with names that have one.
    let collections: Vec<_> = base.path().split('/').filter(|name| !name.is_empty()).collect();
    let path = collections.iter().map(|name| format!("/{name}")).collect::<String>() + "/";
    base.set_path(&path);
    Ok(DavUrl { base, ca: trusted })
}

fn ca(value: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(value);
    if path.is_absolute() { Ok(path) } else { Err("ca is an absolute path".into()) }
}

fn percent_decoded(path: &str) -> Result<String, String> {
    let decoded = percent_encoding::percent_decode_str(path).decode_utf8();
    decoded.map(Into::into).map_err(|_| "its path is not UTF-8".to_owned())
}

/// Characters to encode in a name before [`Url::set_path`], which would keep `%` as it is, drop some control characters, and end the path
/// at `?` and `#`.
const NOT_ENCODED: &AsciiSet = &CONTROLS.add(b'%').add(b'?').add(b'#');

/// A prefix as the path of an address, so that [`percent_decoded`] returns it unchanged, whatever its characters. Slashes that an address
/// would lose, at either end and beside the names `.` and `..`, are encoded too.
fn path_of(prefix: &str) -> String {
    let mut path = String::new();
    let is_dots = |name: &str| matches!(name, "." | "..");
    let names: Vec<_> = prefix.split('/').collect();
    for (number, name) in names.iter().enumerate() {
        if let Some(before) = number.checked_sub(1).map(|before| names[before]) {
            let is_end = number == 1 && before.is_empty() || number + 1 == names.len() && name.is_empty();
            path += if is_end || is_dots(before) || is_dots(name) { "%2F" } else { "/" };
        }
        path.extend(utf8_percent_encode(name, NOT_ENCODED));
    }
    path
}

/// The parts of a bad address that an error may repeat: at most its scheme and its host. A user, a password or a secret key may be anywhere
/// else in it, even where a typo has put it.
fn without_secrets(text: &str) -> String {
    let is_scheme = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let separator = text.find([':', '/']).unwrap_or(0);
    let (scheme, rest) = text.split_at(separator);
    let separated = rest.len() - rest.trim_start_matches([':', '/']).len();
    // Otherwise the first part may be a user.
    let is_known = ["s3", "http", "https", "dav", "davs", "file"].contains(&scheme);
    let is_scheme = is_scheme(scheme) && (rest.starts_with("://") || is_known && separated > 0);
    let (scheme, rest) = text.split_at(if is_scheme { separator + separated } else { 0 });
    let decoded = percent_encoding::percent_decode_str(rest).decode_utf8_lossy();
    let host = decoded.rsplit('@').next().unwrap_or_default();
    let end = if host.starts_with('[') { &['/', '?', '#'][..] } else { &['/', '?', '#', ':'] };
    format!("{scheme}{}", host.split(end).next().unwrap_or_default())
}

impl fmt::Display for StoreUrl {
    /// As it is remembered: the same store is always the same text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreUrl::File(path) => write!(f, "file://{}", path.display()),
            StoreUrl::S3(s3) => {
                let mut url = Url::parse("s3://bucket").map_err(|_| fmt::Error)?;
                url.set_host(Some(&s3.bucket)).map_err(|_| fmt::Error)?;
                url.set_path(&path_of(&s3.prefix));
                let mut query = url.query_pairs_mut();
                if let Some(endpoint) = &s3.endpoint {
                    query.append_pair("endpoint", endpoint.as_str().trim_end_matches('/'));
                }
                if let Some(region) = &s3.region {
                    query.append_pair("region", region);
                }
                if s3.path_style != s3.endpoint.is_some() {
                    query.append_pair("path_style", if s3.path_style { "true" } else { "false" });
                }
                if let Some(ca) = &s3.ca {
                    query.append_pair("ca", &ca.to_string_lossy());
                }
                drop(query);
                f.write_str(url.as_str().trim_end_matches('?'))
            }
            StoreUrl::Dav(dav) => {
                let mut url = dav.base.clone();
                if let Some(ca) = &dav.ca {
                    url.query_pairs_mut().append_pair("ca", &ca.to_string_lossy());
                }
                f.write_str(url.as_str())
            }
        }
    }
}

#[cfg(test)]
mod tests;
