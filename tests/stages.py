#!/usr/bin/env python3
"""The stages of tests/run, several at a time.

A stage is a command. Stages with the same lane run one after another. `waiting` has stages that mostly wait, for time-outs, servers
and guest kernels; `processor` has those that compute, which give way to all others. Each stage's output is printed as a whole when the
stage ends, so that outputs never mix. It is kept for the last stage, which searches it for secrets. A stage that hangs is stopped, and
its output is printed with what its processes waited for.

    tests/stages.py DIRECTORY            all of them; outputs are kept in DIRECTORY
    tests/stages.py DIRECTORY --long     with as many repetitions as fit into a night
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", TREE / "target")).resolve()
LONG = "--long" in sys.argv

# Work that computes after the build leaves the processors to stages that wait.
NICE = {False: [], True: ["nice", "-n", "15"]}

# A stage or a run that takes longer hangs. On a slow computer the build takes 20 minutes, all other stages less, and a run 65, set-up
# included, which tests/run says the beginning of.
STAGE_SECONDS = 8 * 3600 if LONG else 1500
RUN_SECONDS = 24 * 3600 if LONG else 4700
BEGUN = time.monotonic() - max(time.time() - float(os.environ.get("HOLDALL_TESTS_BEGUN", "inf")), 0)
# A stage that prints nothing for this long hangs. Test programs print a line as each test ends; the longest test that waits takes two
# minutes, and one that computes beside other stages takes five.
QUIET_SECONDS = {"waiting": 400, "again": 400}
QUIET_SECONDS_ELSE = 8 * 3600 if LONG else 900
# How long a killed process may take to end. One that waits for a device or a mount without a server may never end.
DEATH_SECONDS = 20

# A test that fails is run again alone, after all stages, and is reported as unsteady if it then passes. A server that starts slowly
# or a device that udev inspects should not hide the result of everything else. More failures than this are not accidents.
UNSTEADY_MAX = 3
# These are never run again. Simulations run on virtual time, where nothing is slow. A test that kills at random moments may have
# found a lost byte, and would not find it a second time.
NEVER_AGAIN = {"seeds", "planted bugs", "engine", "hostile bytes", "build"}
RANDOM_MOMENTS = re.compile(r"kill|power|crash|moment|fight|race")

# The seeds of one run of the simulations. The first one is derived from the commit, so different commits cover different seeds.
SEEDS = {"HOLDALL_SEEDS": "100000" if LONG else "1000"}
ROT = {"HOLDALL_SEEDS": "4000"} if LONG else {}
# Lives of folders on real servers take some 20 seconds each; fsx does some thousand operations a second.
LIVES = {"HOLDALL_SEEDS": "40"} if LONG else {}
FSX = {"HOLDALL_FSX_OPERATIONS": "1000000"} if LONG else {}


@dataclass
class Stage:
    name: str
    command: list
    lane: str
    after: tuple = ()
    environment: dict = field(default_factory=dict)
    directory: Path = TREE
    seconds: float = 0.0
    code: int | None = None
    hung: bool = False
    is_test_program: bool = False


def first_seed():
    """The first seed, derived from the commit, with space for a night's seeds before that of the next number."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=TREE, capture_output=True, text=True).stdout.strip()
    return str(int(head[:6] or "0", 16) * 1000)


class Binaries:
    """The test programs that the build has made."""

    def __init__(self, messages):
        self.found = {}
        for line in messages.splitlines():
            message = json.loads(line) if line.startswith("{") else {}
            if message.get("reason") != "compiler-artifact" or not message.get("executable"):
                continue
            target, package = message["target"], Path(message["manifest_path"]).parent
            if message["profile"]["test"]:
                key = (package.relative_to(TREE).as_posix(), target["kind"][0], target["name"])
                self.found[key] = (message["executable"], package)

    def take(self, package, kind, name, *arguments):
        executable, directory = self.found[package, kind, name]
        return {"command": [executable, "--show-output", *arguments], "directory": directory, "is_test_program": True}

    def left(self, taken):
        return {key: it for key, it in self.found.items() if key not in taken}


def test_stages(binaries):
    """A stage for each test program, or for parts of it. A program that is not named here runs, too."""
    threads = lambda count: f"--test-threads={count}"
    named = [
        # name, program, lane, environment, arguments
        ("seeds", ("core", "test", "sim"), "processor", {"HOLDALL_FIRST_SEED": first_seed(), **SEEDS}, ["--skip", "planted::"]),
        ("planted bugs", ("core", "test", "sim"), "processor", {}, ["planted::"]),
        ("engine", ("core", "test", "engine"), "processor", ROT, []),
        ("hostile bytes", ("fuzz", "test", "corpus"), "processor", {}, []),
        ("engine on stores", ("core", "test", "stores"), "waiting", {}, [threads(4)]),
        ("drives in stores", (".", "test", "stores"), "waiting", {}, [threads(5)]),
        ("product", (".", "test", "product"), "waiting", {}, [threads(3), "--skip", "benchmarks::"]),
        ("benchmarks", (".", "test", "product"), "waiting", {}, ["benchmarks::"]),
        ("command line", ("cli", "test", "cli"), "waiting", {}, [threads(4)]),
        ("attach", (".", "test", "attach"), "waiting", {}, [threads(2)]),
        ("nbd", ("nbd", "test", "nbd"), "waiting", {}, [threads(3)]),
        ("folders on servers", (".", "test", "folders"), "folders", LIVES, [threads(2)]),
        ("folders", ("fuse", "test", "folder"), "processor", FSX, []),
    ]
    stages = []
    for name, program, lane, environment, arguments in named:
        stages.append(Stage(name, lane=lane, after=("build",), environment=environment, **binaries.take(*program, *arguments)))
    for key in sorted(binaries.left({program for _, program, *_ in named})):
        package, kind, name = key
        unit = f"unit tests of {name}" if kind != "test" else f"{package}: {name}"
        stages.append(Stage(unit, lane="processor", after=("build",), **binaries.take(*key)))
    return stages


def shown(text):
    """The printed output of a stage, without the output of tests that passed, which would bury the failures."""
    return re.sub(r"^successes:\n.*?(?=^successes:\n|^failures:\n|^test result:)", "", text, flags=re.M | re.S)


def failed_tests(output):
    """The names of the tests that failed, as a test program lists them at its end."""
    lists = re.findall(r"^failures:\n((?:    \S+\n)+)", output, flags=re.M)
    return lists[-1].split() if lists else []


def ended_tests(output):
    """The names of the tests that ended, as a test program prints them."""
    return set(re.findall(r"^test (\S+)(?: - should panic)? \.\.\. (?:ok|FAILED|ignored)", output, flags=re.M))


def slow_tests(output):
    """The names of the tests that a test program called slow and that did not end: one of them hangs."""
    return set(re.findall(r"^test (\S+) has been running for over", output, flags=re.M)) - ended_tests(output)


def rest_of(stage, output):
    """The stage that runs, once more, what a stage that hung has not run to its end; nothing if that might hide a fault."""
    failed = re.findall(r"^test (\S+) \.\.\. FAILED", output, flags=re.M)
    if not stage.is_test_program or any(RANDOM_MOMENTS.search(name) for name in {*failed, *slow_tests(output)}):
        return []
    filters = stage.command[2:]
    listed = subprocess.run([*map(str, stage.command), "--list"], cwd=stage.directory, capture_output=True, text=True, timeout=60)
    names = set(re.findall(r"^(\S+): test$", listed.stdout, flags=re.M))
    rest = sorted((names - ended_tests(output)) | set(failed))
    threads = [it for it in filters if str(it).startswith("--test-threads")]
    command = [stage.command[0], "--show-output", *threads, "--exact", *rest]
    return [Stage(f"{stage.name}: what hung, again", command, "again", environment=stage.environment, directory=stage.directory)]


def again(stage, output):
    """The stages that run again what failed in this one, which printed `output`; none if its failure counts."""
    if stage.name in NEVER_AGAIN:
        return []
    if stage.hung:
        return rest_of(stage, output)
    if stage.code < 0:
        return []
    if not stage.is_test_program:
        return [] if stage.lane == "processor" else [
            Stage(f"{stage.name}, again", stage.command, "again", environment=stage.environment, directory=stage.directory)
        ]
    names = failed_tests(output)
    if any(RANDOM_MOMENTS.search(name) for name in names):
        return []
    return [
        Stage(f"{stage.name}: {name}, again", [stage.command[0], "--show-output", "--exact", name], "again",
              environment=stage.environment, directory=stage.directory)
        for name in names
    ]


def processes_of(group):
    """A line for each thread of a process group, with what it waits for: threads of a test program have their test's name."""
    columns = "pgid,pid,lwp,stat,etimes,wchan:24,comm,args"
    try:
        lines = subprocess.run(["ps", "-eL", "-ww", "-o", columns], capture_output=True, text=True, timeout=20).stdout.splitlines()
    except subprocess.TimeoutExpired:
        return "ps hangs, too\n"
    return "".join(line[:200] + "\n" for line in lines if line.split()[0] in ("PGID", str(group)))


class Run:
    def __init__(self, kept):
        self.kept = kept
        self.stages = []
        self.changed = threading.Condition()
        self.lanes = {}
        self.running = set()
        self.begun = BEGUN

    def add(self, *stages):
        with self.changed:
            for stage in stages:
                self.stages.append(stage)
                if stage.lane not in self.lanes:
                    self.lanes[stage.lane] = thread = threading.Thread(target=self.work, args=(stage.lane,))
                    thread.start()
            self.changed.notify_all()

    def code(self, name):
        return next((stage.code for stage in self.stages if stage.name == name), None)

    def next_of(self, lane):
        """The lane's next stage, once the stages that it needs have ended; none when the lane is empty."""
        with self.changed:
            while True:
                waiting = [stage for stage in self.stages if stage.lane == lane and stage.code is None]
                if not waiting and self.closed:
                    return None
                for stage in waiting:
                    codes = [self.code(name) for name in stage.after]
                    if None not in codes:
                        return stage
                self.changed.wait()

    closed = False

    def close(self):
        """No more stages will be added: lanes end when they are done."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def work(self, lane):
        while stage := self.next_of(lane):
            if any(self.code(name) != 0 for name in stage.after):
                self.end(stage, -1, f"not run: {' and '.join(stage.after)} failed\n")
                continue
            begun = time.monotonic()
            self.print(f"== {stage.name} begins ({self.elapsed():.0f} s)\n")
            output = self.output(stage)
            with output.open("wb") as file:
                code = self.execute(stage, file)
            stage.seconds = time.monotonic() - begun
            self.end(stage, code, shown(output.read_text(errors="replace")))

    def execute(self, stage, output):
        """Runs the stage's command in its own process group, so that all of its processes are known. Returns its exit code.

        It is not a session: the leader of one would get a pseudo-terminal that a test opens, and would end with it.
        """
        process = subprocess.Popen(
            [*NICE[stage.lane == "processor" and stage.name != "build"], *map(str, stage.command)], cwd=stage.directory,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **stage.environment},
            preexec_fn=os.setpgrp,
        )
        self.running.add(process.pid)
        try:
            return self.wait(process, stage, output)
        finally:
            self.running.discard(process.pid)

    def wait(self, process, stage, output):
        """Waits until the stage's process ends, and returns its exit code. Kills it if it hangs."""
        limit = min(STAGE_SECONDS, max(RUN_SECONDS - self.elapsed(), 1))
        quiet_limit = QUIET_SECONDS.get(stage.lane, QUIET_SECONDS_ELSE)
        begun = heard = time.monotonic()
        size = 0
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(1)
            now, printed = time.monotonic(), os.fstat(output.fileno()).st_size
            if printed != size:
                size, heard = printed, now
            if now - begun > limit or now - heard > quiet_limit:
                break
        stage.hung = True
        reason = f"after {now - begun:.0f} s, of which it printed nothing for {now - heard:.0f} s"
        # The process writes by the same description, so this comes last.
        output.write(f"\nStopped {reason}. Its processes:\n{processes_of(process.pid)}".encode())
        output.flush()
        self.signal(process.pid, signal.SIGKILL)
        try:
            return process.wait(DEATH_SECONDS)
        except subprocess.TimeoutExpired:
            output.write(b"\nIt cannot be killed: it waits in the kernel.\n")
            return -signal.SIGKILL

    def interrupt(self):
        """Stops the running stages, whose process groups the terminal does not reach."""
        for group in list(self.running):
            self.signal(group, signal.SIGINT)

    @staticmethod
    def signal(group, number):
        # It may have ended by now.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, number)

    def end(self, stage, code, text):
        with self.changed:
            verdict = "" if code == 0 else ": FAILED"
            self.print(f"\n== {stage.name}\n{text}-- {stage.name}: {stage.seconds:.0f} s{verdict}\n\n")
            stage.code = code
            self.changed.notify_all()

    def print(self, text):
        with self.changed:
            sys.stdout.write(text)
            sys.stdout.flush()

    def run_again(self):
        """Runs the failed stages or tests again, alone, and returns those that then passed."""
        failed = [stage for stage in self.stages if stage.code]
        repeats = [again(stage, self.output(stage).read_text(errors="replace") if stage.code > 0 or stage.hung else "") for stage in failed]
        everything = [repeat for stages in repeats for repeat in stages]
        if not all(repeats) or len(everything) > UNSTEADY_MAX or self.elapsed() > RUN_SECONDS:
            return []
        self.finish(*everything)
        for stage, stages in zip(failed, repeats):
            stage.code = next((repeat.code for repeat in stages if repeat.code), 0)
        return [repeat.name.removesuffix(", again") for repeat in everything if repeat.code == 0]

    def finish(self, *stages):
        """Runs these stages, and returns when no stage is left."""
        self.closed = False
        self.lanes = {}
        self.add(*stages)
        self.close()
        for thread in self.lanes.values():
            thread.join()

    def output(self, stage):
        return self.kept / (re.sub(r"\W+", "-", stage.name) + ".log")

    def wait_for(self, name):
        with self.changed:
            self.changed.wait_for(lambda: self.code(name) is not None)
            return self.code(name) == 0

    def elapsed(self):
        return time.monotonic() - self.begun


def main(run):
    kept = run.kept
    ui = TREE / "ui"
    npm = lambda script: ["npm", "run", "--silent", script]
    # The app contains the pages, so they come first.
    run.add(
        Stage("pages", npm("build"), "processor", directory=ui),
        Stage("build", ["tests/build", kept / "programs.json"], "processor", after=("pages",)),
        Stage("clean root", ["tests/packages/clean-root"], "network"),
        Stage("format", ["cargo", "fmt", "--all", "--check"], "network"),
        Stage("dependencies", ["packaging/audit"], "network"),
        Stage("types of the pages", npm("check"), "network", after=("pages",), directory=ui),
        Stage("unit tests of the pages", npm("test"), "network", after=("pages",), directory=ui),
    )
    programs = {"HOLDALL_BIN": str(TARGET / "debug")}
    run.add(
        Stage("packages", ["tests/packages/run"], "waiting", after=("build", "clean root"), environment=programs),
        Stage("pages in a browser", ["tests/app/run"], "waiting", after=("build",), environment=programs),
        Stage("pages in a window", ["tests/app/run", "window"], "waiting", after=("build",), environment=programs),
    )
    if run.wait_for("build"):
        run.add(*test_stages(Binaries((kept / "programs.json").read_text())))
    run.add(
        Stage("lint", ["cargo", "clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"], "processor",
              after=("build",)),
        Stage("documentation", ["cargo", "doc", "--workspace", "--no-deps", "--locked", "--quiet"], "processor", after=("build",),
              environment={"RUSTDOCFLAGS": "-D warnings"}),
    )
    run.close()
    for thread in run.lanes.values():
        thread.join()
    unsteady = run.run_again()
    run.finish(Stage("secrets", ["tests/secrets", kept], "last"))

    print("seconds  stage")
    for stage in sorted(run.stages, key=lambda stage: -stage.seconds):
        print(f"{stage.seconds:7.0f}  {stage.name}")
    failed = [stage.name for stage in run.stages if stage.code != 0]
    if failed:
        sys.exit(f"\nFailed: {', '.join(failed)} ({run.elapsed():.0f} s)")
    for name in unsteady:
        print(f"\nUNSTEADY: {name}: failed once, and passed when it was run again alone.")
    print(f"\nAll tests ran; none was skipped. ({run.elapsed():.0f} s)")


def stop_late(run):
    """Ends a run that has not ended well after its time, whatever it waits for: a result that says so is better than none."""
    time.sleep(max(RUN_SECONDS + 300 - run.elapsed(), 0))
    print(f"\nFailed: stopped after {run.elapsed():.0f} s. Stages without an end: "
          f"{', '.join(stage.name for stage in run.stages if stage.code is None)}", flush=True)
    os._exit(1)


if __name__ == "__main__":
    run = Run(Path(sys.argv[1]))
    threading.Thread(target=stop_late, args=(run,), daemon=True).start()
    try:
        main(run)
    except KeyboardInterrupt:
        run.interrupt()
        os._exit(130)
