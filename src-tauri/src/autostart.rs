//! Starting with the desktop: an entry in the autostart directory, as the XDG specification defines it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const FILE: &str = "holdall.desktop";

/// This user's autostart entry.
#[derive(Clone, Debug)]
pub struct Autostart {
    file: PathBuf,
}

impl Autostart {
    /// The entry's place according to the environment. `None` without a home directory.
    pub fn from_environment() -> Option<Autostart> {
        Autostart::resolve(|variable| std::env::var_os(variable))
    }

    fn resolve(get: impl Fn(&str) -> Option<OsString>) -> Option<Autostart> {
        Some(Autostart { file: configuration(get)?.join("autostart").join(FILE) })
    }

    /// Whether the app starts with the desktop.
    pub fn is_on(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|entry| starts(&entry))
    }

    /// Makes `program` start with the desktop.
    pub fn switch_on(&self, program: &Path) -> io::Result<()> {
        let program = &lasting(program);
        let directory = self.file.parent().expect("it was joined to a directory");
        fs::create_dir_all(directory)?;
        let new = self.file.with_extension("new");
        fs::write(&new, entry(program)?)?;
        fs::rename(new, &self.file)
    }

    /// Stops starting it.
    pub fn switch_off(&self) -> io::Result<()> {
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// A user's configuration directory. `None` without a home directory.
pub fn configuration(get: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |variable| get(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))
}

/// The path of a program that may have been replaced since it was started: the kernel then adds " (deleted)" to it.
fn lasting(program: &Path) -> PathBuf {
    let path = program.as_os_str().as_encoded_bytes();
    let replaced = path.strip_suffix(b" (deleted)").filter(|_| !program.exists());
    replaced.map_or_else(|| program.to_owned(), |path| PathBuf::from(OsStr::from_bytes(path)))
}

/// Whether the entry starts anything: desktops switch an entry off in different ways.
fn starts(entry: &str) -> bool {
    let off = ["Hidden=true", "X-GNOME-Autostart-enabled=false"];
    !entry.lines().any(|line| off.contains(&line.trim()))
}

/// TryExec makes the entry void without the program, because it stays in the user's home directory when the app is removed.
fn entry(program: &Path) -> io::Result<String> {
    let program = program.to_str().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(format!(
        "[Desktop Entry]\nType=Application\nName=Holdall\nComment=Drives and pending uploads\nIcon=holdall\n\
         TryExec={}\nExec={} --background\nTerminal=false\n",
        escaped(program),
        quoted(program)
    ))
}

/// A program's path as a plain value of a desktop file: `TryExec` is no command line.
fn escaped(program: &str) -> String {
    program.replace('\\', "\\\\")
}

/// A program's path for `Exec`: in quotes, with special characters escaped, and then escaped once more like any value of a desktop file.
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
    fn autostart_is_switched_on_and_off() {
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
    fn entries_switched_off_by_desktops_are_off() {
        assert!(starts("[Desktop Entry]\nHidden=false\n"));
        assert!(!starts("[Desktop Entry]\nHidden=true\n"));
        assert!(!starts("[Desktop Entry]\nX-GNOME-Autostart-enabled=false\n"));
    }

    #[test]
    fn an_upgraded_app_starts_from_its_old_path() {
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
    fn a_custom_config_directory_is_used() {
        let get = |variable: &str| Some(OsString::from(if variable == "HOME" { "/home/ann" } else { "/c" }));
        assert_eq!(Autostart::resolve(get).unwrap().file, Path::new("/c/autostart/holdall.desktop"));
        assert!(Autostart::resolve(|_| None).is_none());
    }
}
