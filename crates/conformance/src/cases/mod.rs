//! The one list of cases.
//!
//! A case is a function of the module of its group. One that is missing here is dead code, which this crate denies.

mod agents;
mod batches;
mod claims;
mod errors;
mod identifiers;
mod json;
mod lifecycle;
mod lists;
mod nodes;
mod opening;
mod pages;
mod payloads;
mod queries;
mod races;
mod runs;
mod state;
mod times;
mod transfer;
mod transitions;
mod tree;

use crate::Case;

/// Makes [`CASES`] and `for_each_case!` of the same list, so that no runner can know other cases than another.
macro_rules! case_list {
    ($dollar:tt $($group:ident { $($name:ident,)* })*) => {
        /// Every case.
        pub static CASES: &[Case] =
            &[$($(Case { name: stringify!($name), group: stringify!($group), run: $group::$name },)*)*];

        /// Makes a `#[test]` of every case, on what the function of this name answers. Used by `conformance_tests!`.
        #[doc(hidden)]
        #[macro_export]
        macro_rules! for_each_case {
            ($dollar harness:ident) => {
                $(mod $group {
                    $(#[test]
                    fn $name() {
                        $crate::run_test(&super::$dollar harness(), stringify!($group), stringify!($name));
                    })*
                })*
            };
        }
    };
}

case_list! { $
    runs {
        queue_keeps_every_field,
        queue_leaves_out_what_is_not_given,
        start_keeps_every_field,
        start_leaves_out_what_is_not_given,
        start_of_a_queued_run_keeps_what_it_was_queued_with,
        start_fills_a_source_only_where_there_was_none,
        start_refuses_a_taken_id_before_another_workflow,
        reclaim_replaces_the_execution,
        reclaim_with_the_former_token_takes_the_new_lease,
        guarded_reclaim_judges_the_lease_by_the_given_time,
        guarded_reclaim_of_a_run_without_a_lease_is_lease_active,
        confirm_never_moves_a_lease_back,
        confirm_moves_a_lease_by_any_distance,
        an_ended_lease_alone_revokes_nothing,
        wait_clears_the_execution_and_notes_since_when,
        resume_keeps_what_the_run_had,
        resume_without_execution_leaves_none,
        a_second_resume_is_refused,
        finish_keeps_the_output_only_of_success,
        finish_clears_the_execution_and_leaves_the_node_runs,
        a_finish_before_its_start_is_kept_as_given,
        only_failed_or_cancelled_can_end_a_queued_or_waiting_run,
        a_later_end_never_overwrites_an_earlier_one,
        a_rescuer_with_an_old_view_can_not_reclaim_an_ended_run,
        cancel_asks_no_token_and_stops_any_active_run,
        cancel_takes_no_token,
    }
    tree {
        cancel_reaches_every_active_node_run_and_agent_run,
        cancel_reaches_active_agent_runs_under_ended_node_runs,
        cancel_leaves_other_runs_and_projects_alone,
        cancel_takes_one_time_for_the_whole_tree,
        delete_removes_the_run_with_all_under_it,
        a_deleted_id_can_be_used_again,
        purge_deletes_by_the_time_of_the_end_then_the_id,
        purge_takes_only_what_ended_strictly_before,
        purge_filters_by_status_and_workflow,
        purge_stays_in_its_project,
        purge_refuses_limits_and_statuses_that_there_are_not,
        purge_has_a_default_limit_of_1000,
        changing_a_run_keeps_what_is_under_it,
    }
    nodes {
        start_keeps_every_field,
        wait_notes_since_when,
        finish_keeps_the_output_only_of_success,
        start_checks_its_run_from_left_to_right,
        a_node_run_id_is_taken_in_the_whole_project,
        start_does_not_see_the_run_of_another_project,
        the_owner_is_checked_before_the_status_of_the_node,
        wait_checks_owner_then_run_then_node,
        a_node_of_a_waiting_run_can_wait_and_finish,
        open_nodes_of_an_ended_run_can_be_closed_without_a_token,
        a_stale_worker_can_not_write_a_result,
        index_and_types_have_their_ranges,
    }
    agents {
        create_keeps_every_field,
        create_checks_its_node_from_left_to_right,
        create_on_an_ended_node_of_another_type_says_the_type_first,
        only_the_exact_type_agent_has_agent_runs,
        create_judges_a_token_only_where_one_is_given,
        start_keeps_every_field,
        start_needs_an_execution,
        reclaim_replaces_the_execution,
        guarded_reclaim_judges_the_lease_by_the_given_time,
        confirm_never_moves_a_lease_back,
        finish_keeps_every_field,
        finish_keeps_what_is_not_given,
        finish_keeps_an_error_only_when_not_succeeded_and_results_always,
        finish_needs_a_token,
        cancel_asks_no_token,
        a_stale_worker_is_fenced_off_from_its_agent_run,
        agent_commands_look_at_the_agent_run_alone,
        an_agent_run_that_is_not_there_is_not_found,
    }
    claims {
        a_claim_starts_the_run_and_keeps_what_it_was_queued_with,
        claims_go_by_the_time_of_queueing_then_the_id,
        a_claim_of_nothing_is_null,
        a_claim_takes_only_the_workflows_it_names,
        a_claim_stays_in_its_project,
        a_claim_needs_an_execution,
        an_agent_claim_starts_the_agent_run,
        agent_claims_go_by_the_time_of_creation_then_the_id,
        what_was_claimed_can_not_be_started_again,
        claims_among_many_values,
    }
    transitions {
        every_status_of_a_run_against_every_operation,
        every_operation_on_a_run_that_is_not_there,
        confirm_needs_a_running_run_before_its_owner,
        every_status_of_a_node_run_against_every_operation,
        every_status_of_the_run_against_every_operation_on_its_nodes,
        every_status_of_an_agent_run_against_every_operation,
        the_owner_alone_changes_a_running_run,
        the_owner_of_the_run_alone_changes_its_nodes,
        a_waiting_or_queued_run_is_owned_by_calls_without_a_token,
        a_refused_succeeded_of_a_waiting_run_says_the_status_before_the_owner,
        a_replaced_worker_can_not_report_a_failure,
    }
    batches {
        later_commands_see_earlier_ones,
        two_claims_of_one_batch_get_two_runs,
        a_claim_is_whole_whatever_else_of_its_batch_names_what_is_claimed,
        a_purge_takes_the_whole_tree_of_a_run_that_its_batch_ends,
        a_claim_passes_over_agents_whose_runs_its_batch_takes_away,
        a_refused_command_undoes_the_whole_batch,
        a_batch_undone_after_many_changes_leaves_nothing,
        each_refusal_has_its_own_details_and_its_index,
        the_shape_of_all_comes_before_the_first_change,
        no_batch_and_no_query_in_a_batch,
        a_batch_has_1_to_1000_commands,
        the_clock_is_read_once_for_a_batch,
        without_a_manual_clock_too_all_times_of_a_batch_are_equal,
        a_batch_spans_projects,
        commands_of_a_batch_choose_their_answers,
        a_delete_and_a_new_start_of_one_id_in_a_batch,
    }
    lists {
        time_comes_first_and_the_id_decides_ties,
        ties_sort_by_the_bytes_of_the_id,
        node_runs_sort_by_time_then_index_then_id,
        runs_sort_by_their_start_once_they_started,
        each_filter_of_runs_alone,
        filters_of_runs_are_joined_by_and,
        each_filter_of_node_runs_alone_and_joined,
        each_filter_of_agent_runs_alone_and_joined,
        empty_lists_match_nothing,
        repeats_in_a_list_count_once,
        lists_of_many_values,
        lists_of_more_than_100000_values_are_invalid,
        a_status_that_the_entity_does_not_have_is_invalid,
        filters_are_plain_equality,
        projects_never_see_each_other,
        an_empty_or_overlong_filter_is_invalid,
        lists_answer_whole_records,
    }
    pages {
        equal_times_page_without_repeats_or_gaps,
        has_more_at_the_exact_boundary,
        the_default_page_is_50_newest_first,
        limit_zero_counts_without_rows,
        limits_and_offsets_have_their_ranges,
        without_total_the_rest_is_the_same,
        a_walk_by_cursor_gives_what_one_page_gives,
        a_total_counts_the_rows_before_the_cursor_too,
        a_cursor_may_be_used_with_other_filters_and_limits,
        a_cursor_outlives_its_row,
        a_cursor_fits_its_op_project_and_order_only,
        a_cursor_that_was_damaged_is_invalid,
        a_cursor_and_an_offset_exclude_each_other,
        a_walk_sees_every_lasting_row_once_while_rows_are_written,
        rows_that_come_between_pages_shift_offsets,
        filters_hold_on_every_page,
        a_limit_counts_runs_and_not_what_is_under_them,
    }
    queries {
        get_of_what_is_not_there_is_null,
        latest_takes_the_greatest_id_among_equal_times,
        latest_answers_in_the_order_first_asked,
        latest_counts_runs_in_every_status,
        latest_stays_in_its_project,
        expired_goes_over_all_projects_by_lease_project_and_id,
        expired_can_stay_in_one_project,
        expired_follows_every_change_of_a_lease,
        agents_expired_follows_every_change_of_a_lease,
        expired_has_its_limits,
        stats_count_by_status_and_workflow,
        stats_follow_every_change,
        projects_are_listed_with_their_runs,
        store_info_says_what_the_store_is,
        store_verify_counts_what_it_checked,
        store_compact_keeps_every_record,
    }
    state {
        every_command_can_answer_the_state,
        every_query_can_answer_the_state,
        the_form_is_record_or_state,
        a_state_answer_has_nothing_of_a_large_record,
        errors_and_small_texts_stay_in_a_state_answer,
    }
    json {
        an_unknown_field_is_named,
        a_field_given_twice_is_named,
        a_missing_field_is_named,
        null_is_absence_of_an_optional_field,
        null_is_no_required_value,
        null_is_a_value_of_a_payload,
        integers_are_digits_with_an_optional_minus,
        what_is_no_json_is_invalid_and_the_store_goes_on,
        the_op_must_be_one_that_there_is,
        members_come_in_any_order_and_may_be_escaped,
        wrong_kinds_are_invalid,
        fields_of_records_come_in_the_order_of_the_contract,
        answers_of_writes_gets_and_lists_are_the_same_bytes,
        shape_comes_before_everything_else,
    }
    identifiers {
        an_empty_identifier_is_invalid_everywhere,
        identifiers_have_up_to_512_bytes,
        longer_identifiers_are_invalid_and_not_repeated_in_the_error,
        nul_in_an_identifier_is_invalid,
        every_other_character_is_allowed,
        identifiers_are_compared_byte_for_byte,
        a_separator_in_an_identifier_joins_nothing,
        neighbours_of_a_project_or_workflow_stay_apart,
        the_escape_of_a_lone_surrogate_is_invalid,
        texts_keep_nul_and_every_character,
        an_empty_text_is_not_an_absent_one,
    }
    payloads {
        numbers_keep_their_spelling,
        key_order_and_repeated_keys_are_kept,
        escapes_and_white_space_inside_are_kept,
        null_empty_and_false_values_are_kept,
        deep_nesting_is_kept,
        sizes_around_every_inner_limit_are_kept,
        white_space_around_a_payload_is_not_part_of_it,
        a_line_break_between_tokens_becomes_a_space,
        what_no_reader_could_read_back_is_invalid,
        depth_is_counted_from_the_payloads_own_bracket,
        an_absent_payload_stays_absent,
        a_later_start_replaces_a_long_input_by_a_short_one,
        each_payload_and_text_has_a_limit,
        sizes_are_bytes_as_given,
        the_default_limit_is_16_mib,
        a_request_over_256_mib_is_too_large,
    }
    times {
        offsets_are_instants_and_not_text,
        fractions_of_any_length_sort_as_numbers,
        finer_times_are_rounded_down_to_microseconds,
        times_before_1970_are_kept_exactly,
        the_ends_of_the_range_are_kept,
        every_form_of_rfc_3339_is_read,
        what_is_no_time_is_invalid,
        times_that_are_not_given_come_from_the_clock,
        a_clock_that_is_set_back_is_believed,
        clock_times_and_given_times_are_one_kind,
        time_bounds_are_inclusive,
    }
    errors {
        an_error_never_holds_a_payload_or_the_engines_words,
        an_error_never_holds_a_token,
        every_refusal_names_its_record_and_project,
        a_refused_command_changes_nothing,
        retryable_is_false_for_what_can_not_succeed_later,
    }
    transfer {
        an_export_has_every_record_in_order_and_its_checksum,
        an_empty_store_gives_an_empty_stream,
        an_import_makes_an_equal_ledger,
        equal_ledgers_give_equal_streams_whatever_made_them,
        an_import_skips_equal_records,
        a_different_record_under_the_same_key_is_a_conflict_and_leaves_nothing,
        payloads_that_differ_only_in_spelling_are_a_conflict,
        a_stream_that_was_cut_short_is_corrupt,
        a_stream_that_was_altered_is_corrupt,
        counts_and_checksum_must_both_be_right,
        records_out_of_order_or_twice_are_corrupt,
        records_without_their_parent_are_corrupt,
        data_after_the_end_is_corrupt,
        what_is_no_stream_is_corrupt,
        records_that_no_command_could_have_made_are_corrupt,
        a_newer_format_is_schema_too_new,
        a_value_over_the_limit_is_too_large_to_import,
        an_attempt_never_passes_its_greatest_value,
        an_export_is_one_state_while_writes_go_on,
        restore_replaces_all_in_one_step,
        a_refused_restore_leaves_all_as_it_was,
        records_of_every_size_go_through_a_stream,
    }
    lifecycle {
        a_closed_handle_answers_closed,
        a_second_close_is_harmless,
        close_waits_for_what_was_accepted,
        every_answer_is_the_same_after_opening_again,
        a_closed_store_can_be_moved,
        suspended_work_goes_on_after_opening_again,
        writes_go_on_after_many_openings,
        a_second_handle_sees_every_write_at_once,
        handles_share_rules_about_new_projects_and_workflows,
        a_second_handle_is_locked_out,
        stores_in_memory_are_apart,
        a_handle_is_made_used_and_dropped_on_different_threads,
        heartbeats_do_not_grow_a_file_by_their_inputs,
    }
    opening {
        an_unknown_option_is_named,
        a_wrong_value_of_an_option_is_named,
        durability_and_busy_timeout_are_accepted,
        memory_has_nothing_existing_to_open,
        a_journal_is_an_option_of_sqlite_alone,
        a_journal_can_be_switched,
        existing_and_read_only_create_nothing,
        a_missing_directory_is_io_and_not_created,
        a_directory_is_no_store,
        an_empty_path_is_invalid,
        an_empty_file_is_a_fresh_store,
        any_file_name_makes_exactly_that_file,
        a_read_only_store_answers_queries_and_refuses_commands,
        a_smaller_limit_hides_nothing_that_is_stored,
        a_file_of_another_program_is_left_untouched,
        a_damaged_payload_is_corrupt_and_never_an_answer,
        a_store_that_was_cut_is_corrupt,
    }
    races {
        one_of_many_resumes_wins,
        a_queue_and_a_start_at_once_make_one_run,
        one_of_many_starts_of_a_queued_run_wins,
        no_reclaim_is_lost,
        a_guarded_reclaim_succeeds_once,
        one_of_many_creations_wins,
        two_claimers_never_get_the_same_run,
        two_claimers_never_get_the_same_agent_run,
        one_end_of_many_holds,
        a_cancel_leaves_no_active_node_behind,
        batches_that_meet_are_each_whole,
        a_reader_sees_its_own_writes_among_many_writers,
        a_page_comes_from_one_state,
        a_store_in_use_is_compacted_or_busy,
    }
}
