"""``python -m roost`` is the same as ``roost``."""

import sys

from roost.cli.main import main

sys.exit(main())
