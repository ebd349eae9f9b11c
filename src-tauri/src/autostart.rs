//! Starting with the desktop: an entry in the autostart directory, as the XDG specification has it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const FILE: &str = "holdall.desktop";

/// The entry of this user.
#[derive(Clone, Debug)]
pub struct Autostart {
    file: PathBuf,
}

impl Autostart {
    /// Where the environment has it. `None` where there is no home.
    pub fn from_environment() -> Option<Autostart> {
        Autostart::resolve(|variable| std::env::var_os(variable))
    }

    fn resolve(get: impl Fn(&str) -> Option<OsString>) -> Option<Autostart> {
        Some(Autostart { file: configuration(get)?.join("autostart").join(FILE) })
    }

    /// Whether the app is started with the desktop.
    pub fn is_on(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|entry| starts(&entry))
    }

    /// Has `program` started with the desktop.
    pub fn switch_on(&self, program: &Path) -> io::Result<()> {
        let program = &lasting(program);
        let directory = self.file.parent().expect("it was joined to a directory");
        fs::create_dir_all(directory)?;
        let new = self.file.with_extension("new");
        fs::write(&new, entry(program)?)?;
        fs::rename(new, &self.file)
    }

    /// Has it started no more.
    pub fn switch_off(&self) -> io::Result<()> {
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Where a user's configuration is. `None` where there is no home.
pub fn configuration(get: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |variable| get(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))
}

/// Where a program is that may have been replaced since it was started: the kernel says so behind its path.
fn lasting(program: &Path) -> PathBuf {
    let path = program.as_os_str().as_encoded_bytes();
    let replaced = path.strip_suffix(b" (deleted)").filter(|_| !program.exists());
    replaced.map_or_else(|| program.to_owned(), |path| PathBuf::from(OsStr::from_bytes(path)))
}

/// Desktops have their own ways to switch an entry off.
fn starts(entry: &str) -> bool {
    let off = ["Hidden=true", "X-GNOME-Autostart-enabled=false"];
    !entry.lines().any(|line| off.contains(&line.trim()))
}

/// Without the program the entry counts for nothing: it stays in its user's home directory when the app is removed.
fn entry(program: &Path) -> io::Result<String> {
    let program = program.to_str().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(format!(
        "[Desktop Entry]\nType=Application\nName=Holdall\nComment=Drives, and what is not uploaded yet\nIcon=holdall\n\
         TryExec={}\nExec={} --background\nTerminal=false\n",
        escaped(program),
        quoted(program)
    ))
}

/// A program's path as a value of such a file, and nothing more: `TryExec` is no command line.
fn escaped(program: &str) -> String {
    program.replace('\\', "\\\\")
}

/// A program's path as `Exec` wants it: in quotes, with what means something there escaped, and then once more as any
/// value of such a file.
fn quoted(program: &str) -> String {
    let mut text = String::from("\"");
    for character in program.chars() {
        match character {
            '"' | '`' | '$' => text.extend(["\\\\", character.encode_utf8(&mut [0; 4])]),
            '\\' => text.push_str("\\\\\\\\"),
            '%' => text.push_str("%%"),
            _ => text.push(character),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_switched_on_and_off() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().as_os_str().to_owned();
        let get = |variable: &str| (variable == "HOME").then(|| home.clone());
        let autostart = Autostart::resolve(get).unwrap();
        assert!(!autostart.is_on());
        autostart.switch_off().unwrap();
        autostart.switch_on(Path::new("/usr/bin/holdall-app")).unwrap();
        assert!(autostart.is_on());
        let written = fs::read_to_string(dir.path().join(".config/autostart/holdall.desktop")).unwrap();
        assert!(written.contains("\nExec=\"/usr/bin/holdall-app\" --background\n"), "{written}");
        assert!(
            written.contains("\nTryExec=/usr/bin/holdall-app\n"),
            "an app that was removed is not started: {written}"
        );
        autostart.switch_off().unwrap();
        assert!(!autostart.is_on());
    }

    #[test]
    fn what_a_desktop_has_switched_off_is_off() {
        assert!(starts("[Desktop Entry]\nHidden=false\n"));
        assert!(!starts("[Desktop Entry]\nHidden=true\n"));
        assert!(!starts("[Desktop Entry]\nX-GNOME-Autostart-enabled=false\n"));
    }

    #[test]
    fn an_app_that_was_upgraded_while_it_ran_is_started_from_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let old = dir.path().join("app (deleted)");
        assert_eq!(lasting(&old), dir.path().join("app"));
        fs::write(&old, "").unwrap();
        assert_eq!(lasting(&old), old, "somebody has called it so");
    }

    #[test]
    fn any_path_is_one_word() {
        assert_eq!(quoted("/opt/my app/50%"), "\"/opt/my app/50%%\"");
        assert_eq!(quoted("/a\"$`\\"), r#""/a\\"\\$\\`\\\\""#);
        assert_eq!(escaped("/my app/50%\\"), r"/my app/50%\\");
    }

    #[test]
    fn a_config_directory_of_ones_own_is_used() {
        let get = |variable: &str| Some(OsString::from(if variable == "HOME" { "/home/ann" } else { "/c" }));
        assert_eq!(Autostart::resolve(get).unwrap().file, Path::new("/c/autostart/holdall.desktop"));
        assert!(Autostart::resolve(|_| None).is_none());
    }
}
