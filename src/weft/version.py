"""The version of Weft. A constant: reading it from the metadata of the installed package costs a command 20 ms."""

from typing import Final

VERSION: Final = "0.1.0"
