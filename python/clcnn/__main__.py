"""`python -m clcnn`: see clcnn.cli."""

import sys

from clcnn.cli import main

if __name__ == "__main__":
    sys.exit(main())
