"""``python3 -I sandbox_container``: one supervisor, one job."""

import os
import sys

# The folder that holds this package goes last: -I keeps it off the path, and no neighbour may shadow the library.
sys.path[:] = [*sys.path[1:], os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]

from sandbox_container.supervisor import main  # noqa: E402 - the path has to be set first

sys.exit(main())
