"""Names of output files."""

from __future__ import annotations

import pytest

from weft.errors import InputError
from weft.inputs.output_names import check_output_name
from weft.node.engine.launch_spec import LaunchSpec
from weft.node.engine.output.file_names import output_arguments


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("%j.out", "12_3.out"),
        ("%A-%a", "12-3"),
        ("%5A/%03a", "00012/003"),
        ("%4j", "12_3"),
        ("%x of %u on %N", "a_b of ann on n1"),
        ("100%%j", "100%j"),
        ("plain", "plain"),
    ],
)
def test_placeholders_stand_for_the_job(name: str, file: str) -> None:
    spec = LaunchSpec("12_3", 1, ("true",), name="a/b", user="ann", array_index=3, output=check_output_name(name))
    assert output_arguments(spec, "n1", 1)["output"] == file


@pytest.mark.parametrize(("name", "what"), [("%q", "%q"), ("a%", "%"), ("", "does not name"), ("logs/", "not name"),
                                            ("%11j", "10 digits"), ("a\0b", "NUL"), ("x" * 5000, "4,000")])  # fmt: skip
def test_what_is_no_name_is_refused(name: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        check_output_name(name)


@pytest.mark.parametrize(
    ("run", "nodes", "name", "appends"), [(1, 1, "o", False), (2, 1, "o", True), (1, 2, "o", True), (1, 2, "%N", False)]
)
def test_only_the_first_writer_empties_a_file(run: int, nodes: int, name: str, appends: bool) -> None:
    spec = LaunchSpec("1", run, ("true",), output=name, error=name)
    found = output_arguments(spec, "n1", nodes)
    assert (found["output_append"], found["error_append"]) == (appends, appends)


@pytest.mark.parametrize(("name", "appends"), [("o", True), ("%A", True), ("%a", False), ("%4j.err", False)])
def test_tasks_of_an_array_do_not_empty_a_file_that_they_share(name: str, appends: bool) -> None:
    spec = LaunchSpec("12_3", 1, ("true",), array_index=3, output=name, error=name)
    found = output_arguments(spec, "n1", 1)
    assert (found["output_append"], found["error_append"]) == (appends, appends)
