# `just` lists the recipes. Each is one command that a person runs and that CI runs too.

default:
    @just --list

# Everything that must hold before a change lands.
test:
    tests/run

# Format and lint.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# The engine on a simulated disk and store; HOLDALL_SEED=n replays one seed, HOLDALL_SEEDS=n runs so many.
sim:
    cargo test -p holdall-core --test sim -- --nocapture

# Compiles classic bugs in, one after another: the simulation has to find every one.
sim-planted:
    cargo test -p holdall-core --features planted --test sim -- --nocapture

# Measures the budgets beside peers (root; a quarter of an hour), and writes benches/results/DATE.json.
bench *options:
    packaging/setup tests
    cargo bench --bench budgets -- run {{options}}

# Makes BENCHMARKS.md from the newest file in benches/results.
bench-report:
    cargo bench --bench budgets -- report
