# `just` lists the recipes. Each is one command that a person runs and that CI runs too.

default:
    @just --list

# Everything that must hold before a change lands.
test:
    tests/run

# The pages of the app: built into ui/dist, where a daemon of this tree finds them.
ui:
    cd ui && npm ci && npm run build

# The desktop app, with the daemon beside it: built, and started. For a user who is not root it installs the helper that attaches drives (by sudo).
desktop *options:
    packaging/setup app
    cd ui && npm run build
    cargo build --release --locked
    cargo build --release --locked -p holdall-app
    packaging/helper --if-needed
    target/release/holdall-app {{options}}

# The pages in a browser against a real daemon; `just app window` tests the desktop app, `just app screens` keeps the pictures
# in docs/screens.
app *part:
    tests/app/run {{part}}

# The Debian packages, in target/package: holdall, and holdall-app where its source is.
package:
    packaging/package --build

# The packages of a debug build in a clean root: installed, used without sudo, removed (root).
packages:
    tests/packages/run

# Bans, licences, sources and advisories of what it is built of.
audit:
    packaging/audit

# Format and lint.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# The same with a night's repetitions.
test-long:
    tests/run --long

# The engine on a simulated disk and store; HOLDALL_SEED=n replays one seed, HOLDALL_SEEDS=n runs so many.
sim:
    cargo test -p holdall-core --test sim -- --nocapture --skip planted::
    cargo test -p holdall-core --test migrate -- --nocapture --skip planted::

# Plants classic bugs, one after another: the simulation has to find every one.
sim-planted:
    cargo test -p holdall-core --test sim -- --nocapture planted::
    cargo test -p holdall-core --test migrate -- --nocapture planted::

# One target of fuzz/src/lib.rs under libFuzzer, for so many seconds: what it finds is in fuzz/artifacts, what it learns
# in fuzz/learnt. It needs `cargo install cargo-fuzz`; the stable compiler is told to act as a nightly one.
fuzz target seconds='60':
    cargo test -p holdall-fuzz --test corpus -- --ignored write_seeds
    mkdir -p fuzz/corpus/{{target}} fuzz/artifacts
    HOLDALL_FUZZ={{target}} RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none --features libfuzzer target \
        fuzz/learnt/{{target}} fuzz/corpus/{{target}} -- \
        -max_total_time={{seconds}} -rss_limit_mb=2048 -artifact_prefix=fuzz/artifacts/{{target}}-

# The same targets on stable Rust with a simple mutator, for so many seconds each.
fuzz-all seconds='60':
    HOLDALL_FUZZ_SECONDS={{seconds}} cargo test -p holdall-fuzz --test corpus -- --nocapture

# Writes the fixtures of today's format, where there are none yet.
fixtures:
    cargo test -p holdall-core --test engine -- --ignored fixtures::regenerate
    cargo test -p holdall-core --test migrate -- --ignored fixtures::write_fixtures

# Several threads on one drive, for minutes instead of seconds.
threads:
    HOLDALL_OPERATIONS=100000 cargo test -p holdall-core --test engine threads::

# Two computers fight for a drive in a directory, in buckets and on WebDAV servers: so many rounds each (root; two of eight
# take over a minute).
fight rounds='24':
    HOLDALL_ROUNDS={{rounds}} cargo test -p holdall --test product -- --nocapture fight::

# Measures the budgets beside peers (root; half an hour), and writes benches/results/DATE.json.
bench *options:
    packaging/setup tests
    cargo build --release --locked -p holdall-cli
    cargo bench --bench budgets -- run {{options}}

# Makes BENCHMARKS.md from the files in benches/results.
bench-report:
    cargo bench --bench budgets -- report
