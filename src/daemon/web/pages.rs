//! The pages that a browser is shown: files of a directory, read once.
//!
//! They are built from `ui/` and installed beside the daemon, which can be built without the tools for them. Because they are read into
//! memory when they are first requested, a request's path is only a name to look up, and leads to no file.

use crate::api::{Code, Failure};
use crate::daemon::failure::{self, failure};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// All files together; the real pages have some hundred KB.
const BYTES_MAX: u64 = 32 << 20;
/// How deep directories may be nested.
const DEPTH_MAX: usize = 4;

/// The pages.
pub struct Pages(BTreeMap<String, Bytes>);

impl Pages {
    /// The pages of the first directory that has some: only `HOLDALL_WEB_DIR` if it is set; otherwise the directory that is installed with
    /// this program, then the one that was built beside it.
    pub fn find() -> Result<Self, Failure> {
        let places = match std::env::var_os("HOLDALL_WEB_DIR").filter(|path| !path.is_empty()) {
            Some(path) => vec![PathBuf::from(path)],
            None => places(std::env::current_exe().ok().as_deref()),
        };
        let found = places.iter().find(|place| place.join("index.html").is_file());
        let Some(place) = found else { return Err(not_installed(&places)) };
        Self::read(place).map_err(|error| failure::local(&error))
    }

    fn read(place: &Path) -> io::Result<Self> {
        let (mut files, mut left) = (BTreeMap::new(), BYTES_MAX);
        read_into(&mut files, place, String::new(), &mut left, DEPTH_MAX)?;
        Ok(Self(files))
    }

    /// The answer for a path. A path without a file extension is a place within the pages, which they find themselves.
    pub fn answer(&self, method: &Method, path: &str) -> Response {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return StatusCode::METHOD_NOT_ALLOWED.into_response();
        }
        let name = path.trim_start_matches('/');
        let is_place = !name.rsplit('/').next().unwrap_or_default().contains('.');
        let name = if is_place { "index.html" } else { name };
        let Some(bytes) = self.0.get(name) else {
            return StatusCode::NOT_FOUND.into_response();
        };
        let mut response = bytes.clone().into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type(name)));
        // The build names these files by their content.
        if name.starts_with("assets/") {
            let for_ever = HeaderValue::from_static("private, max-age=31536000, immutable");
            headers.insert(header::CACHE_CONTROL, for_ever);
        }
        response
    }
}

fn places(program: Option<&Path>) -> Vec<PathBuf> {
    let beside = program.and_then(Path::parent).and_then(|bin| {
        let installed = bin.parent()?.join("share/holdall/web");
        // target/release/holdalld
        let built = bin.parent()?.parent().map(|tree| tree.join("ui/dist"));
        Some([Some(installed), built].into_iter().flatten())
    });
    beside.into_iter().flatten().chain([PathBuf::from("/usr/share/holdall/web")]).collect()
}

fn read_into(
    files: &mut BTreeMap<String, Bytes>,
    directory: &Path,
    prefix: String,
    left: &mut u64,
    depth: usize,
) -> io::Result<()> {
    for entry in directory.read_dir()? {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().map(|name| format!("{prefix}{name}")) else { continue };
        let kind = entry.file_type()?;
        if kind.is_dir() && depth > 0 {
            read_into(files, &entry.path(), format!("{name}/"), left, depth - 1)?;
        } else if kind.is_file() {
            let too_much = || io::Error::other(format!("the pages in {} are too large", directory.display()));
            *left = left.checked_sub(entry.metadata()?.len()).ok_or_else(too_much)?;
            files.insert(name, std::fs::read(entry.path())?.into());
        }
    }
    Ok(())
}

fn not_installed(places: &[PathBuf]) -> Failure {
    let looked: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
    failure(
        Code::NotFound,
        format!("The pages are not installed: there is no index.html in {}.", looked.join(", ")),
        failure::NOTHING_CHANGED,
        "Install Holdall's package, or build them in a source tree (npm ci && npm run build, in ui) and set HOLDALL_WEB_DIR to \
         ui/dist in the environment of holdalld. The command line can do everything too.",
    )
}

/// The page for an address whose token is no longer valid.
pub fn stale_invitation() -> Html<&'static str> {
    Html(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Holdall</title>\
         <h1>This address has already been used, or is too old</h1>\
         <p>It signs in one browser, and works for five minutes only. Your drives are not affected.</p>\
         <p>Run <code>holdall web</code> again, and open the address that it prints. \
         If this browser is already signed in, <a href=\"/\">continue without it</a>.</p></html>",
    )
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_served_by_their_names_and_places_by_the_page() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("assets")).unwrap();
        std::fs::write(dir.path().join("index.html"), "<p>").unwrap();
        std::fs::write(dir.path().join("assets/a-1234.js"), "1").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("passwd.txt")).unwrap();
        let pages = Pages::read(dir.path()).unwrap();
        let get = |path: &str| pages.answer(&Method::GET, path);
        for path in ["/", "/drives/work", "/index.html"] {
            assert_eq!(get(path).headers()[header::CONTENT_TYPE], "text/html; charset=utf-8", "{path}");
            assert!(!get(path).headers().contains_key(header::CACHE_CONTROL));
        }
        let script = get("/assets/a-1234.js");
        assert_eq!(script.headers()[header::CONTENT_TYPE], "text/javascript; charset=utf-8");
        assert!(script.headers()[header::CACHE_CONTROL].to_str().unwrap().contains("immutable"));
        for path in ["/passwd.txt", "/assets/b.js", "/../etc/passwd.txt", "/%2e%2e/x.txt"] {
            assert_eq!(get(path).status(), StatusCode::NOT_FOUND, "{path}");
        }
        assert_eq!(pages.answer(&Method::POST, "/").status(), StatusCode::METHOD_NOT_ALLOWED);
    }

    #[test]
    fn pages_are_found_beside_the_program() {
        let places = places(Some(Path::new("/opt/tree/target/release/holdalld")));
        let expected = ["/opt/tree/target/share/holdall/web", "/opt/tree/ui/dist", "/usr/share/holdall/web"];
        assert_eq!(places, expected.map(PathBuf::from));
        let failure = not_installed(&places);
        assert!(failure.message.contains("/opt/tree/ui/dist"), "{}", failure.message);
    }
}
