"""The version that Weft names is that of the package."""

from __future__ import annotations

from importlib.metadata import version

from weft.version import VERSION


def test_the_version_is_that_of_the_installed_package() -> None:
    assert version("weft") == VERSION, "make setup"
