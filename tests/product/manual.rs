//! The commands in docs/manual work: each page's run here, as a person at a terminal types them.
//!
//! - "```sh run" is run in the home directory of a new computer, one block of the page after another. It must succeed.
//!   "```sh run desk" is run on another computer, named desk.
//! - "```text" after such a block is what its commands print. "..." stands for anything, and alone on a line for any lines;
//!   how many spaces there are does not matter. A home directory is shown as /home/ann.
//! - "```sh not run: WHY" is not run, and WHY is for the reader of the source. Its `holdall` commands must exist.
//!
//! `/mnt/nas` is an empty directory that all computers of a page share. A page that creates no drive begins with the drive
//! `photos`, empty, in `file:///mnt/nas/photos`. It is open, unless the page begins by opening it. A question is answered with
//! yes, with the name of that drive, or with the one passphrase.

use crate::bench::{Bench, Machine, PATIENCE, noise};
use crate::programs;
use clap::Parser;
use holdall_cli::args::Arguments;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

const PASSPHRASE: &str = "correct horse";
/// A command that is quiet for this time after a question waits for an answer.
const QUIET: Duration = Duration::from_millis(50);
/// Most of a page is waiting for processes.
const PAGES_AT_ONCE: usize = 4;
const CREATE: &str = "holdall drive create photos --store file:///mnt/nas/photos --size 256M";
const OPEN: &str = "holdall open photos";

/// A fenced block of a page.
struct Block {
    line: usize,
    info: String,
    text: String,
}

fn tree() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The pages, by their names.
fn pages() -> BTreeMap<String, String> {
    let files = fs::read_dir(tree().join("docs/manual")).unwrap().map(|entry| entry.unwrap().path());
    let pages = files.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    pages.map(|path| (name_of(&path), fs::read_to_string(&path).unwrap())).collect()
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut open): (_, Option<Block>) = (Vec::new(), None);
    for (number, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => {
                open = Some(Block { line: number + 1, info: info.to_owned(), text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.text.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed:\n{page}");
    blocks
}

/// The name of the computer on which a block is run.
fn computer(block: &Block) -> Option<&str> {
    let name = block.info.strip_prefix("sh run")?.trim();
    Some(if name.is_empty() { "this" } else { name })
}

#[test]
fn commands_in_the_manual_work() {
    let pages = pages();
    let (left, wrong) = (Mutex::new(pages.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..PAGES_AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some((name, page)) = left.lock().unwrap().next() else { break };
                    if let Err(why) = follow(page) {
                        wrong.lock().unwrap().push(format!("docs/manual/{name}:{why}"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Runs the blocks of a page; the first that is wrong, with its line.
fn follow(page: &str) -> Result<(), String> {
    let blocks = blocks(page);
    let Some(first) = blocks.iter().find(|block| computer(block).is_some()) else { return Ok(()) };
    let bench = Bench::new();
    fs::create_dir(bench.path("nas")).unwrap();
    let mut computers = BTreeMap::new();
    let creates = |block: &Block| computer(block).is_some() && block.text.contains("drive create ");
    if !blocks.iter().any(creates) {
        let this = computers.entry("this").or_insert_with(|| home(&bench, "this"));
        let opens = first.text.starts_with(OPEN);
        said(&bench, this, &if opens { CREATE.to_owned() } else { format!("{CREATE}\n{OPEN}") })?;
    }
    for (at, block) in blocks.iter().enumerate() {
        let Some(name) = computer(block) else { continue };
        let on = computers.entry(name).or_insert_with(|| home(&bench, name));
        let said = said(&bench, on, &block.text).map_err(|why| format!("{}: {why}", block.line))?;
        if let Some(shown) = blocks.get(at + 1).filter(|shown| shown.info == "text")
            && !is_said(&lines(&shown.text), &lines(&said))
        {
            return Err(format!("{}: the page shows\n{}\nand it is\n{said}", shown.line, shown.text));
        }
    }
    Ok(())
}

/// A computer of somebody who has some files already.
fn home(bench: &Bench, name: &str) -> Machine {
    let mut computer = bench.machine(name);
    for (seed, file) in
        ["Pictures/2019/beach.jpg", "Pictures/2026/snow.jpg", "Pictures/2026/wood.jpg", "letter.odt"]
            .into_iter()
            .enumerate()
    {
        let file = computer.dir.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, noise(seed as u64, 300_000)).unwrap();
    }
    let programs = PathBuf::from(programs::holdall()).parent().unwrap().display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let home = computer.dir.display().to_string();
    computer.environment.extend([("PATH".to_owned(), path), ("HOME".to_owned(), home)]);
    // Without having built the pages, for `holdall web`.
    let web = computer.dir.join("web");
    fs::create_dir(&web).unwrap();
    fs::write(web.join("index.html"), "<!doctype html>").unwrap();
    computer.environment.push(("HOLDALL_WEB_DIR".to_owned(), web.display().to_string()));
    computer
}

/// Runs commands on a computer, and returns their output.
fn said(bench: &Bench, computer: &Machine, commands: &str) -> Result<String, String> {
    let nas = bench.text("nas");
    let mut shell = computer.program("bash");
    let script = format!("set -euo pipefail; cd\n{}", commands.replace("/mnt/nas", &nas));
    shell.args(["-c", &script]).env("TERM", "xterm");
    let (code, said, shown) = at_a_terminal(shell);
    match code {
        Some(0) => {
            Ok(said.replace(&nas, "/mnt/nas").replace(&computer.dir.display().to_string(), "/home/ann"))
        }
        code => Err(format!("ended with {code:?}:\n{commands}\n{said}{shown}")),
    }
}

/// Runs a command that asks and shows its progress at a terminal: its exit code, what it prints, and what the terminal shows.
fn at_a_terminal(mut command: Command) -> (Option<i32>, String, String) {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&screen).unwrap();
    unlockpt(&screen).unwrap();
    let name = ptsname(&screen, Vec::new()).unwrap().into_string().unwrap();
    let terminal = OpenOptions::new().read(true).write(true).open(name).unwrap();
    command.stdin(terminal.try_clone().unwrap()).stderr(terminal).stdout(Stdio::piped()).process_group(0);
    let mut child = command.spawn().unwrap();
    // The terminal is the child's alone: it is closed when the child ends.
    drop(command);

    let mut keyboard = File::from(screen);
    let mut screen = keyboard.try_clone().unwrap();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(len @ 1..) = screen.read(&mut bytes) {
            if tell.send(String::from_utf8_lossy(&bytes[..len]).into_owned()).is_err() {
                break;
            }
        }
    });
    let mut printed = child.stdout.take().unwrap();
    let printed = std::thread::spawn(move || {
        let mut text = String::new();
        printed.read_to_string(&mut text).map(|_| text)
    });

    let (mut shown, begun) = (String::new(), Instant::now());
    loop {
        match told.recv_timeout(QUIET) {
            Ok(text) => shown.push_str(&text),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(answer) = answer(&shown) {
                    writeln!(keyboard, "{answer}").unwrap();
                    shown.push('\n');
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if begun.elapsed() > PATIENCE {
            // With what it has started, which holds the terminal too.
            let group = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
            shown.push_str("\nit hangs");
            break;
        }
    }
    let code = child.wait().unwrap().code();
    (code, printed.join().unwrap().unwrap(), shown)
}

/// The line to type if the screen ends with a question.
fn answer(shown: &str) -> Option<&'static str> {
    let asked = shown.rsplit('\n').next()?;
    if asked.ends_with("[y/N] ") {
        Some("y")
    } else if asked.starts_with("Type the drive's name") {
        Some("photos")
    } else {
        asked.ends_with(": ").then_some(PASSPHRASE)
    }
}

fn lines(text: &str) -> Vec<String> {
    text.trim().lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Whether these lines are as the page shows them.
fn is_said(shown: &[String], said: &[String]) -> bool {
    match shown.split_first() {
        None => said.is_empty(),
        Some((any, rest)) if any == "..." => (0..=said.len()).any(|skipped| is_said(rest, &said[skipped..])),
        Some((line, rest)) => {
            said.split_first().is_some_and(|(first, more)| is_like(line, first) && is_said(rest, more))
        }
    }
}

fn is_like(shown: &str, said: &str) -> bool {
    match shown.split_once("...") {
        None => shown == said,
        Some((before, after)) => said.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| is_like(after, &rest[at..]))
        }),
    }
}

#[test]
fn dots_in_the_manual_stand_for_anything() {
    let is_said = |shown: &str, said: &str| is_said(&lines(shown), &lines(said));
    assert!(is_said("a  b", "a b\n"));
    assert!(is_said("...", ""));
    assert!(is_said("a\n...\nd", "a\nb\nc\nd"));
    assert!(is_said("DRIVE  ...\nphotos  ... Ready ...", "DRIVE STATE\nphotos  ✓ Ready  1 TiB"));
    assert!(!is_said("a", "a\nb"));
    assert!(!is_said("a\n...\nd", "a\nb"));
    assert!(!is_said("a ... c", "a b"));
}

#[test]
fn every_command_in_the_documentation_exists() {
    let readme = fs::read_to_string(tree().join("README.md")).unwrap();
    let indented =
        readme.lines().enumerate().filter_map(|(number, line)| Some((number, line.strip_prefix("    ")?)));
    let mut texts: Vec<_> =
        indented.map(|(number, line)| (format!("README.md:{}", number + 1), line.to_owned())).collect();
    for (name, page) in pages() {
        for block in blocks(&page) {
            let place = format!("docs/manual/{name}:{}", block.line);
            let is_marked = computer(&block).is_some() || block.info.starts_with("sh not run: ");
            assert!(is_marked || block.info == "text", "{place}: {} is neither run nor not run", block.info);
            if block.info.starts_with("sh ") {
                texts.push((place, block.text));
            }
        }
    }
    let mut wrong = Vec::new();
    for (place, text) in texts {
        for words in commands(&text) {
            let Some(program) = words.iter().find(|word| *word != "sudo") else { continue };
            let from = words.iter().skip_while(|word| *word != "holdall");
            if program == "holdall"
                && let Err(error) = Arguments::try_parse_from(from)
                && error.exit_code() != 0
            {
                wrong.push(format!("{place}: {error}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The words of each simple command, as a shell takes them apart; what it expands stays.
fn commands(text: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words, mut word, mut quote) = (Vec::new(), Vec::new(), None::<String>, None);
    let text = text.replace("\\\n", " ");
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match (char, quote) {
            (_, Some(open)) if char == open => quote = None,
            (_, Some(_)) => word.get_or_insert_default().push(char),
            ('\'' | '"', None) => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            ('#', None) if word.is_none() => {
                chars.by_ref().find(|char| *char == '\n');
                commands.push(std::mem::take(&mut words));
            }
            ('\n' | '|' | '&' | ';', None) => {
                words.extend(word.take());
                commands.push(std::mem::take(&mut words));
            }
            (' ', None) => words.extend(word.take()),
            (_, None) => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    commands.push(words);
    // Redirections are no arguments.
    for words in &mut commands {
        if let Some(at) = words.iter().position(|word| word.starts_with(['<', '>'])) {
            words.truncate(at);
        }
    }
    commands
}

#[test]
fn manual_lists_every_page_and_links_to_pages_only() {
    let pages = pages();
    let listed = links(&pages["README.md"]);
    for (name, page) in &pages {
        assert!(name == "README.md" || listed.contains(name), "docs/manual/README.md does not list {name}");
        assert!(page.starts_with("# "), "docs/manual/{name} begins with its title");
        for link in links(page) {
            let is_there = link.starts_with("https://") || tree().join("docs/manual").join(&link).exists();
            assert!(is_there, "docs/manual/{name}: there is no {link}");
        }
    }
}

fn links(page: &str) -> Vec<String> {
    let ends = page.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    ends.map(|(link, _)| link.to_owned()).collect()
}
