//! Stores that are broken on purpose, each in one point, and the case that must notice it.
//!
//! A suite proves nothing by passing; it must also fail where a store is wrong.

mod backend;
mod calls;
mod transaction;

pub use backend::Broken;
pub use calls::Mangled;

/// Makes an enum of faults from the table of their names and the cases that must notice them.
macro_rules! faults {
    ($(#[$doc:meta])* $name:ident { $($fault:ident => $case:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each is named as what it does wrong")]
        pub enum $name { $($fault,)* }

        impl $name {
            /// Every fault.
            pub const ALL: &'static [$name] = &[$($name::$fault,)*];

            /// The case that must fail on a store with this fault, as `group::name`.
            pub fn caught_by(self) -> &'static str {
                match self { $($name::$fault => $case,)* }
            }
        }
    };
}

faults! {
    /// What is broken in a backend: first in a transaction that writes, then in what is read.
    BackendFault {
        ChangeOfANodeIsDropped => "nodes::wait_notes_since_when",
        CancelledAgentStaysRunning => "agents::cancel_asks_no_token",
        OutputIsLost => "runs::finish_keeps_the_output_only_of_success",
        InputOfAQueuedRunStays => "runs::start_of_a_queued_run_keeps_what_it_was_queued_with",
        SourceIsForgottenToBeHeld => "runs::start_fills_a_source_only_where_there_was_none",
        NewestQueuedRunIsClaimed => "claims::claims_go_by_the_time_of_queueing_then_the_id",
        ClaimIgnoresTheWorkflows => "claims::a_claim_takes_only_the_workflows_it_names",
        ClaimOfAnAgentIgnoresTheAgents => "claims::agent_claims_go_by_the_time_of_creation_then_the_id",
        NodesOfARunAreNotFound => "tree::cancel_reaches_every_active_node_run_and_agent_run",
        UndoDoesNothing => "batches::a_refused_command_undoes_the_whole_batch",
        PurgeTakesTheLatest => "tree::purge_deletes_by_the_time_of_the_end_then_the_id",
        DeletedNodesCanStillBeRead => "tree::delete_removes_the_run_with_all_under_it",
        DeleteMiscountsTheAgents => "tree::delete_removes_the_run_with_all_under_it",
        ConfirmMovesTheLeaseBack => "runs::confirm_never_moves_a_lease_back",
        ResumeIsNoAttempt => "runs::resume_keeps_what_the_run_had",
        WaitKeepsTheExecution => "runs::wait_clears_the_execution_and_notes_since_when",
        FailedWorkIsCommitted => "transfer::a_different_record_under_the_same_key_is_a_conflict_and_leaves_nothing",
        ClockIsTheServers => "times::times_that_are_not_given_come_from_the_clock",
        GetIsStale => "runs::confirm_never_moves_a_lease_back",
        GetIgnoresTheProject => "tree::delete_removes_the_run_with_all_under_it",
        ListIgnoresTheForm => "state::every_query_can_answer_the_state",
        TiesComeInReverse => "lists::ties_sort_by_the_bytes_of_the_id",
        ListIgnoresTheNodeKey => "lists::each_filter_of_node_runs_alone_and_joined",
        WindowIsOpenAtItsEnd => "times::time_bounds_are_inclusive",
        TotalIsOneMore => "pages::limit_zero_counts_without_rows",
        TotalCountsOnlyThePage => "pages::a_total_counts_the_rows_before_the_cursor_too",
        LastRowIsNotAnnounced => "pages::has_more_at_the_exact_boundary",
        CursorPassesOverTies => "pages::a_walk_by_cursor_gives_what_one_page_gives",
        LatestComeInByteOrder => "queries::latest_answers_in_the_order_first_asked",
        ExpiredLeavesOutTheBound => "queries::expired_follows_every_change_of_a_lease",
        ExpiredComeById => "queries::expired_goes_over_all_projects_by_lease_project_and_id",
        ExpiredIgnoresTheProject => "queries::expired_can_stay_in_one_project",
        StatsLoseARun => "queries::stats_count_by_status_and_workflow",
        ProjectWithoutRunsIsListed => "queries::projects_are_listed_with_their_runs",
        ExportMissesAnAgent => "transfer::an_export_has_every_record_in_order_and_its_checksum",
        ExportIsOutOfOrder => "transfer::an_export_has_every_record_in_order_and_its_checksum",
        VerifyChecksNothing => "queries::store_verify_counts_what_it_checked",
    }
}

faults! {
    /// What is broken in the calls of a store: in how requests are read, in how answers are written, and beside both.
    CallFault {
        FinishAsksNoToken => "transitions::the_owner_alone_changes_a_running_run",
        IdsAreTrimmed => "identifiers::identifiers_are_compared_byte_for_byte",
        IdsAreLowerCase => "identifiers::identifiers_are_compared_byte_for_byte",
        TextsEndAtNul => "identifiers::texts_keep_nul_and_every_character",
        EmptyTextIsAbsence => "identifiers::an_empty_text_is_not_an_absent_one",
        NullPayloadIsAbsence => "json::null_is_a_value_of_a_payload",
        PayloadsAreWrittenAnew => "payloads::numbers_keep_their_spelling",
        UnknownFieldIsIgnored => "json::an_unknown_field_is_named",
        LimitIsClamped => "pages::limits_and_offsets_have_their_ranges",
        DefaultPageIsLonger => "pages::the_default_page_is_50_newest_first",
        EmptyListIsNoFilter => "lists::empty_lists_match_nothing",
        CursorFitsBothOrders => "pages::a_cursor_fits_its_op_project_and_order_only",
        RefusalIsSuccess => "runs::guarded_reclaim_judges_the_lease_by_the_given_time",
        RecordIsNull => "nodes::finish_keeps_the_output_only_of_success",
        FieldsAreSorted => "json::fields_of_records_come_in_the_order_of_the_contract",
        MicrosecondsAreDropped => "times::finer_times_are_rounded_down_to_microseconds",
        StaleTokenIsRetryable => "transitions::the_owner_alone_changes_a_running_run",
        IndexCountsFromOne => "batches::each_refusal_has_its_own_details_and_its_index",
        FieldIsNotNamed => "claims::a_claim_needs_an_execution",
        TotalIsAlwaysThere => "pages::without_total_the_rest_is_the_same",
        StateHasTheInput => "state::every_query_can_answer_the_state",
        ClosedStillAnswers => "lifecycle::a_closed_handle_answers_closed",
        ImportAnswersNothingSkipped => "transfer::an_import_skips_equal_records",
        RestoreKeepsWhatIsThere => "transfer::restore_replaces_all_in_one_step",
    }
}
