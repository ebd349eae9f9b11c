//! docs/MIGRATION.md shows the tables that the engines take their steps by.

use holdall_core::migrate::phase::Role;
use std::path::Path;

#[test]
fn the_document_shows_the_steps_of_both_engines() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/MIGRATION.md");
    let text = std::fs::read_to_string(path).unwrap();
    for role in [Role::Seeder, Role::Leecher] {
        let block = format!("```mermaid\n{}```", role.diagram());
        assert!(text.contains(&block), "docs/MIGRATION.md lacks this diagram of the {role:?}:\n{block}");
    }
}
