"""`python -m weft`."""

import sys

from weft.ui.cli import main

sys.exit(main())
