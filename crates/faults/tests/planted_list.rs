//! The defects that are planted, and the test that finds each: a list that can't fall behind.

/// What is wrong, the file of the test that must find it, and the test.
const PLANTED: &[(&str, &str, &str)] = &[
    ("redb: acknowledged without a flush", "planted", "redb_acknowledging_without_a_flush_is_found"),
    ("redb: acknowledged before the flush", "planted", "redb_acknowledging_before_the_flush_is_found"),
    ("redb: a write that failed is taken for done", "planted", "redb_taking_a_write_that_failed_for_done_is_found"),
    ("redb: a flush that failed is taken for done", "planted", "redb_taking_a_flush_that_failed_for_done_is_found"),
    ("SQLite: acknowledged before the flush", "planted", "sqlite_acknowledging_before_the_flush_is_found"),
    ("SQLite: synchronous=OFF", "planted", "sqlite_with_synchronous_off_is_found"),
    ("SQLite: synchronous=NORMAL for full", "planted", "sqlite_with_synchronous_normal_for_full_is_found"),
    ("SQLite: synchronous=NORMAL without a log", "planted", "sqlite_without_a_log_with_synchronous_normal_for_relaxed_is_found"),
    ("SQLite: the directory is not flushed", "planted", "sqlite_without_a_flush_of_the_directory_is_found"),
    ("SQLite: the log is not flushed", "planted", "sqlite_without_a_flush_of_the_log_is_found"),
    ("SQLite: the journal is not flushed", "planted", "sqlite_without_a_flush_of_the_journal_is_found"),
    ("SQLite: the file is not flushed at a checkpoint", "planted", "sqlite_without_a_flush_of_the_file_at_a_checkpoint_is_found"),
    ("SQLite: relaxed is taken for full", "planted", "sqlite_relaxed_is_held_to_less_than_full"),
    ("SQLite: a write that failed is taken for done", "planted", "sqlite_taking_a_write_that_failed_for_done_is_found"),
    ("SQLite: a flush that failed is taken for done", "planted", "sqlite_taking_a_flush_that_failed_for_done_is_found"),
    ("SQLite: counters outside of the transaction", "planted", "sqlite_counting_outside_of_the_transaction_is_found"),
    ("a follower is answered before the commit", "planted_product", "followers_answered_before_the_commit_are_found"),
    (
        "a refusal is answered before the commit that it depends on",
        "planted_product",
        "refusals_answered_before_the_commit_they_depend_on_are_found",
    ),
    ("SQLite: BEGIN takes no lock", "planted_product", "sqlite_beginning_deferred_is_found"),
    ("SQLite: no wait for locks", "planted_product", "sqlite_without_a_busy_timeout_is_found"),
    ("SQLite: a commit that failed is taken for done", "planted_product", "sqlite_swallowing_a_failed_commit_is_found"),
    ("SQLite: opened in a fork of its holder", "planted_product", "sqlite_opened_in_a_fork_of_its_holder_is_found"),
    ("a lease is read before the lock", "planted_product", "a_lease_read_before_the_lock_is_found"),
    ("counters follow after the commit", "planted_product", "counters_after_the_commit_are_found"),
    ("a migration without a transaction", "planted_product", "a_migration_without_a_transaction_is_found"),
    ("checksums are not compared", "planted_product", "checksums_that_are_not_compared_are_found"),
    ("a verification looks at nothing", "planted_product", "a_verification_that_looks_at_nothing_is_found"),
    ("fifteen broken rules of a backend", "planted_product", "the_simulation_notices_what_breaks_its_rules"),
    ("wrong histories", "linearisable", "the_checker_tells_right_histories_from_wrong_ones"),
];

#[test]
fn every_planted_defect_has_a_test_that_finds_it() {
    let sources = [
        ("planted", include_str!("planted.rs")),
        ("planted_product", include_str!("planted_product.rs")),
        ("linearisable", include_str!("linearisable.rs")),
    ];
    for (what, file, test) in PLANTED {
        let (_, source) = sources.iter().find(|(name, _)| name == file).unwrap();
        assert!(source.contains(&format!("#[test]\nfn {test}()")), "{what}: there is no test {test} in {file}.rs");
        println!("{what}: {file}::{test}");
    }
    // The other way round: a test that finds a defect is listed.
    for (file, source) in sources {
        let names = source.split("#[test]\nfn ").skip(1).filter_map(|rest| rest.split('(').next());
        for name in names.filter(|name| name.ends_with("_found")) {
            assert!(PLANTED.iter().any(|(_, of, test)| *of == file && *test == name), "{file}::{name} is not listed");
        }
    }
    assert!(PLANTED.len() >= 10);
}
