"""The file tools and a sandboxed shell over a plain directory, for developers of agents (README, "As a library").

::

    from local.library import create_sandbox_backend

    backend = create_sandbox_backend("./work")
    backend.write_file("hello.py", "print('hello')")
    print(backend.execute("python3 hello.py").text)
"""

from local.library.backend import SandboxBackend, create_sandbox_backend
from workbench.errors import ToolError

__all__ = ["SandboxBackend", "ToolError", "create_sandbox_backend"]
