"""`python -m rankmixup` is the command `rankmixup`."""

import sys

from rankmixup.cli.main import main

# The guard is for worker processes, which import this module again under another name.
if __name__ == "__main__":
    sys.exit(main())
