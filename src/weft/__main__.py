"""`python -m weft`."""

import sys

from weft.cli.main import main

sys.exit(main())
