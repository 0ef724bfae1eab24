"""The version of Weft. A constant: reading it from the metadata of the installed package costs a command 20 ms."""

from typing import Final

VERSION: Final = "0.1.0"
BUILD: Final = ""
"""The commit that a wheel was built of; empty: this is a clone."""
__version__: Final = f"{VERSION}+{BUILD}" if BUILD else VERSION
