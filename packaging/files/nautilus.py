"""Nautilus' context menu and emblems for files on drives and in folders (python3-nautilus). Each entry of the menu runs holdall-files. Emblems
come from the daemon's socket, in a thread: Nautilus never waits, and a daemon that is not running is not started."""

import http.client
import json
import os
import socket
import subprocess
import threading
import time
import urllib.parse

PROGRAM = "/usr/libexec/holdall-files"
ACTIONS = [
    ("keep", "Always keep on this computer"),
    ("free", "Free up space"),
    ("status", "Copy status"),
]


# The table of states: how each looks, and its word. The names of emblems are of the icon naming specification, or of Adwaita.
STATES = {
    "online_only": ("emblem-web", "Online only"),
    "partly": ("emblem-downloads", "Partly here"),
    "available": ("emblem-default", "Available"),
    "always_keep": ("emblem-important", "Always keep"),
    "waiting": ("emblem-synchronizing", "Waiting to upload"),
    "conflict": ("emblem-unreadable", "Conflict"),
}
# What the daemon said of a directory holds for this long, in seconds: Nautilus asks for each file by itself.
FRESH = 3
# How long the daemon may take, in seconds. A file without an answer has no emblem.
PATIENCE = 5
# The file system's type of a folder's mount.
FOLDER_TYPE = "fuse.holdall-folder"


class Connection(http.client.HTTPConnection):
    """To the daemon's socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def socket_path(environment=os.environ):
    """Where the daemon listens."""
    runtime = environment.get("HOLDALL_RUNTIME_DIR")
    if not runtime and environment.get("XDG_RUNTIME_DIR"):
        runtime = os.path.join(environment["XDG_RUNTIME_DIR"], "holdall")
    return os.path.join(runtime or f"/tmp/holdall-{os.getuid()}", "daemon.sock")


def ask(directory):
    """The states of the entries of a directory, by name."""
    connection = Connection(socket_path())
    try:
        connection.request("GET", "/v1/entries?" + urllib.parse.urlencode({"path": directory}))
        answer = connection.getresponse()
        entries = json.loads(answer.read()) if answer.status == 200 else []
    finally:
        connection.close()
    return {entry["name"]: entry["state"] for entry in entries}


class States:
    """What the daemon said last, by directory."""

    def __init__(self, ask=ask, clock=time.monotonic):
        self.ask, self.clock, self.known, self.lock = ask, clock, {}, threading.Lock()

    def of(self, path):
        """The state of a file; none where the daemon does not say it."""
        directory, name = os.path.split(path)
        # One question at a time: those for the other files of a directory find its answer.
        with self.lock:
            at, names = self.known.get(directory, (None, {}))
            if at is None or self.clock() - at > FRESH:
                try:
                    names = self.ask(directory)
                except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
                    names = {}
                now = self.clock()
                self.known = {kept: told for kept, told in self.known.items() if now - told[0] <= FRESH}
                self.known[directory] = (now, names)
        return STATES.get(names.get(name))


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
    """Where drives and folders are mounted."""
    points = []
    with open(mountinfo, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            before, _, after = line.partition(" - ")
            kind, source = after.split(" ")[:2]
            if kind == FOLDER_TYPE or source.startswith(("/dev/nbd", "/dev/loop")) and is_drive(source, sys_block):
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
    from gi.repository import GLib, GObject, Nautilus
except ImportError:
    pass
else:

    class Holdall(GObject.GObject, Nautilus.MenuProvider, Nautilus.InfoProvider):
        """The entries and the emblems."""

        def __init__(self):
            super().__init__()
            self.states, self.cancelled = States(), set()

        def update_file_info_full(self, provider, handle, closure, file):
            """Begins to find the state of a file. The emblem is added in Nautilus' own thread, once it is known."""
            paths = paths_on_drives([file.get_uri()], drives())
            if not paths:
                return Nautilus.OperationResult.COMPLETE
            threading.Thread(target=self.find, args=(provider, handle, closure, file, paths[0]), daemon=True).start()
            return Nautilus.OperationResult.IN_PROGRESS

        def find(self, provider, handle, closure, file, path):
            state = self.states.of(path)

            def show():
                if handle in self.cancelled:
                    self.cancelled.discard(handle)
                    return False
                if state:
                    file.add_emblem(state[0])
                    file.add_string_attribute("holdall_state", state[1])
                Nautilus.info_provider_update_complete_invoke(
                    closure, provider, handle, Nautilus.OperationResult.COMPLETE
                )
                return False

            GLib.idle_add(show)

        def cancel_update(self, provider, handle):
            """Nautilus no longer shows the file."""
            self.cancelled.add(handle)

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
