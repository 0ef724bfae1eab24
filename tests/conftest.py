"""Makes `builders` and `checks` importable, and Hypothesis draw the same examples every time."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

settings.register_profile("steady", derandomize=True, deadline=None, database=None)
settings.load_profile("steady")
