"""The reported faults of ``tests/local/test_cases_*`` over a plain directory: the same tests, another backend.

Left to the HTTP tools are those about what only they have: versions, stored results, artifacts, other turns' histories,
several queries and context lines of search_files, and its cost and line forms.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.local import test_cases_guard, test_cases_images, test_cases_seen
from tests.local.test_cases_budgets import (  # noqa: F401 - collected here
    test_a_binary_file_does_not_spoil_a_search,
    test_a_line_over_a_cap_says_so_and_its_length,
    test_a_nul_late_in_a_file_is_no_silent_stop,
    test_bytes_that_are_no_text_survive_every_edit_of_something_else,
    test_what_reading_shows_for_bad_bytes_is_never_written_back,
    test_which_cap_hit_is_said,
)
from tests.local.test_cases_edits import (  # noqa: F401
    test_a_moved_line_is_found_by_its_anchor_only_when_it_is_the_only_one,
    test_a_near_miss_is_a_hint_and_never_a_match,
    test_an_empty_find_is_refused,
    test_blanks_are_matched_as_they_are,
    test_edits_of_a_call_apply_together_or_not_at_all,
    test_look_alikes_are_different_characters,
    test_numbers_mean_the_file_before_the_call,
    test_overlapping_places_count,
    test_places_of_several_lines_are_listed,
    test_refusals_by_line_come_in_their_order,
    test_tabs_stay_and_a_lost_indentation_comes_back,
    test_the_number_column_never_lands_in_a_file,
    test_touching_ranges_and_ends_of_white_space_are_fine,
    test_trailing_blanks_are_not_forgiven,
    test_what_matches_nothing_is_told_where_its_first_line_stands,
)
from tests.local.test_cases_guard import (  # noqa: F401
    test_a_binary_file_may_be_replaced,
    test_a_refused_replacement_guards_the_file_for_the_rest_of_the_turn,
    test_every_long_file_of_a_refused_batch_is_guarded,
    test_four_thousand_characters_may_be_replaced_and_one_more_may_not,
    test_one_edit_over_every_line_replaces_outright_once_all_is_seen,
    test_the_guard_holds_only_over_a_file_still_long,
    test_the_root_is_not_deleted,
    test_what_is_not_there_is_not_deleted_and_near_names_are_told,
)
from tests.local.test_cases_images import (  # noqa: F401
    test_a_corrupt_orientation_is_ignored,
    test_a_picture_goes_out_as_what_it_is,
    test_damaged_pictures_are_refused_in_words,
    test_every_kind_of_pixel_keeps_its_colour,
    test_large_pictures_are_reduced_and_their_size_is_told,
    test_pictures_are_shown_upright,
    test_the_bytes_decide_and_not_the_name,
)
from tests.local.test_cases_lines import (  # noqa: F401
    test_a_closing_newline_starts_no_line,
    test_a_range_that_is_none_is_refused_with_the_rule,
    test_a_stale_offset_is_not_taken_for_an_empty_file,
    test_appending_says_when_it_joined_an_unterminated_line,
    test_edits_by_line_touch_no_other_byte,
    test_edits_by_text_touch_no_other_byte,
    test_not_a_number_is_refused_before_anything_is_read,
    test_numbers_sent_as_text_are_converted_and_told,
)
from tests.local.test_cases_paths import (  # noqa: F401
    test_a_folder_where_a_file_is_meant_says_to_add_a_name,
    test_a_percent_sign_is_just_a_character,
    test_composed_and_decomposed_names_are_one,
    test_dots_are_resolved_before_anything_is_looked_up,
    test_names_that_differ_only_in_case_are_different_files,
    test_the_workspaces_own_folder_name_is_refused_naming_the_file,
)
from tests.local.test_cases_search import (  # noqa: F401
    test_a_query_never_spans_what_is_two_lines,
    test_case_folding_keeps_places_in_the_original,
    test_queries_are_text_and_not_patterns,
)
from tests.local.test_cases_seen import (  # noqa: F401
    test_a_file_that_was_deleted_and_made_again_was_not_seen,
    test_a_line_needs_its_anchor_or_to_have_been_seen,
    test_a_line_shown_in_part_was_not_seen,
    test_a_range_needs_to_have_been_seen_whatever_its_anchors,
    test_a_turns_own_edits_count_as_seen,
    test_another_turn_has_seen_nothing,
    test_lines_that_moved_are_not_what_was_seen_at_their_number,
    test_the_lines_a_refusal_shows_count_as_seen,
)
from tests.local.test_cases_writes import (  # noqa: F401
    test_a_write_that_is_none_is_refused_whole,
    test_content_is_written_exactly,
    test_content_of_another_kind_is_refused,
    test_encoded_edits_are_decoded,
    test_encoded_files_are_decoded_and_their_content_is_not,
    test_escapes_in_an_edit_stay_what_they_are,
    test_half_a_character_cannot_be_written,
    test_one_path_is_a_list_of_one,
    test_one_written_file_has_a_limit_of_its_own,
)
from tests.unit.library_talk import DirectoryTalk

# What the modules' own fixtures put there first.
_BEFORE = {
    test_cases_seen.__name__: ("f.txt", test_cases_seen.TEN),
    test_cases_guard.__name__: ("long.txt", test_cases_guard.LONG),
}


@pytest.fixture
def talk(tmp_path: Path, request: pytest.FixtureRequest) -> DirectoryTalk:
    module = request.function.__module__
    talk = DirectoryTalk(tmp_path / "root", vision=module == test_cases_images.__name__)
    if module in _BEFORE:
        path, text = _BEFORE[module]
        talk.put(path, text.encode())
    return talk
