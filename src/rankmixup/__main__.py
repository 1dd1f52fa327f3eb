"""`python -m rankmixup` is the command `rankmixup`."""

import sys

from rankmixup.cli.main import main

sys.exit(main())
