//! The table of transitions in the README is the one that the code makes.

const BEGIN: &str = "<!-- transitions -->\n";
const END: &str = "<!-- /transitions -->";

/// `RUNLEDGER_WRITE_DOCS=1` writes the table instead of comparing it.
#[test]
fn the_table_of_transitions_is_that_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let readme = std::fs::read_to_string(path).unwrap();
    let (before, rest) = readme.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let made = format!("{before}{BEGIN}{}{END}{after}", runledger::transition::table_as_markdown());
    if std::env::var_os("RUNLEDGER_WRITE_DOCS").is_some() {
        std::fs::write(path, made).unwrap();
    } else {
        assert!(made == readme, "the README's table is not that of the code; `cargo xtask docs` writes it");
    }
}
