"""Nautilus' context menu for files on drives (python3-nautilus): each entry runs holdall-files."""

import os
import subprocess
import urllib.parse

PROGRAM = "/usr/libexec/holdall-files"
ACTIONS = [
    ("keep", "Always keep on this computer"),
    ("free", "Free up space"),
    ("status", "Copy status"),
]


def is_drive(source, sys_block="/sys/block"):
    """Whether a mount's source is a drive's block device: what the kernel says of it. No drive and no daemon is asked,
    so that a menu never waits."""
    directory = os.path.join(sys_block, os.path.basename(source))
    for name, belongs in (
        ("backend", lambda text: text.startswith("holdall:")),
        ("loop/backing_file", lambda text: "/disks/" in text and text.endswith("/disk")),
    ):
        try:
            with open(os.path.join(directory, name), encoding="utf-8", errors="surrogateescape") as file:
                return belongs(file.read().rstrip("\n"))
        except OSError:
            pass
    return False


def drives(mountinfo="/proc/self/mountinfo", sys_block="/sys/block"):
    """Where drives are mounted."""
    points = []
    with open(mountinfo, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            before, _, after = line.partition(" - ")
            source = after.split(" ")[1]
            if source.startswith(("/dev/nbd", "/dev/loop")) and is_drive(source, sys_block):
                point = before.split(" ")[4]
                for escape, character in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
                    point = point.replace(escape, character)
                points.append(point)
    return points


def paths_on_drives(uris, points):
    """The files' paths, if each of them is on a drive; else none."""
    paths = []
    for uri in uris:
        address = urllib.parse.urlsplit(uri)
        path = os.fsdecode(urllib.parse.unquote_to_bytes(address.path))
        if address.scheme != "file" or not any(path == point or path.startswith(point + "/") for point in points):
            return []
        paths.append(path)
    return paths


try:
    from gi.repository import GObject, Nautilus
except ImportError:
    pass
else:

    class Holdall(GObject.GObject, Nautilus.MenuProvider):
        """The entries."""

        def get_file_items(self, *arguments):
            # Before Nautilus 43 the window is the first argument.
            return self.menu("files", arguments[-1])

        def get_background_items(self, *arguments):
            return self.menu("folder", [arguments[-1]])

        def menu(self, of, files):
            """The entries for some files. Nautilus knows an entry by its name alone, among all that a window has at a time:
            under one name, those of the files would do what those of the folder behind them do."""
            paths = paths_on_drives([file.get_uri() for file in files], drives())
            if not paths:
                return []
            top = Nautilus.MenuItem(name=f"Holdall::{of}", label="Holdall")
            menu = Nautilus.Menu()
            top.set_submenu(menu)
            for action, label in ACTIONS:
                item = Nautilus.MenuItem(name=f"Holdall::{of}_{action}", label=label)
                item.connect("activate", lambda _item, action=action: subprocess.Popen([PROGRAM, action, *paths]))
                menu.append_item(item)
            return [top]
