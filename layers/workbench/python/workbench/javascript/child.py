"""The process that evaluates one program and ends: ``python3 -I -S child.py ENGINE PRELUDE CHARACTERS``.

Standard library only, started before there is a program, with an empty environment. It loads the engine, gives up what
it can, says that it is ready, reads the program to the end of its input and writes messages, one JSON array a line:
``["ready"]``, ``["printed", text, cut]``, and at last one of ``["value", type, text, cut]``,
``["error", name, message, stack]`` and ``["pending"]``. Who reads them keeps the time.
"""

import importlib.machinery
import importlib.util
import json
import os
import resource
import sys
import time
from types import ModuleType
from typing import Any

MIB = 1024 * 1024
MEMORY_BYTES = 128 * MIB
# What the interpreter, the C library and the engine's own tables map beside the program's memory, the stack among it.
OTHER_ADDRESS_BYTES = 160 * MIB
# Recursion as deep as in other engines, more than ten thousand calls. The engine may use half of the stack.
STACK_BYTES = 64 * MIB
CPU_SECONDS = 4
# Whose rights a child of root takes: nobody's.
NOBODY = 65534

# No descriptor can be made any more, and so no socket and no file, whatever number is free; no process, no thread.
# A child that is ended leaves no core.
LIMITS = {
    resource.RLIMIT_AS: MEMORY_BYTES + OTHER_ADDRESS_BYTES,
    resource.RLIMIT_CPU: CPU_SECONDS,
    resource.RLIMIT_FSIZE: 0,
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_NPROC: 0,
    resource.RLIMIT_NOFILE: 0,
}


def main() -> None:
    """Evaluate what comes in; never returns."""
    engine, prelude, characters = sys.argv[1:]
    with open(prelude, encoding="utf-8") as file:  # noqa: PTH123 - pathlib alone would double the start
        context, host = prepare(load(engine), file.read(), int(characters))
    give_up()
    send('"ready"')
    code = sys.stdin.buffer.read()
    try:
        host("run", code.decode("ascii"))
        while context.execute_pending_job():
            continue
        host("tell", "")
    except Exception as error:  # noqa: BLE001 - thrown by a job, or by the engine when it has no memory to say why
        first, _, stack = str(error).partition("\n")
        name, colon, message = first.partition(": ")
        texts = (name, message, stack) if colon and name.isidentifier() else ("", first, stack)
        send('"error"', *map(json.dumps, texts))
    # Without giving the memory back piece by piece: the process takes it along.
    os._exit(0)


def load(engine: str) -> ModuleType:
    """The extension module at this path, without the folders around it."""
    loader = importlib.machinery.ExtensionFileLoader("_quickjs", engine)
    spec = importlib.util.spec_from_file_location("_quickjs", engine, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def prepare(engine: ModuleType, prelude: str, characters: int) -> tuple[Any, Any]:
    """A context with the prelude in it, and the function that the prelude leaves to the host."""
    context = engine.Context()
    context.set_memory_limit(MEMORY_BYTES)
    context.set_max_stack_size(allow_stack() // 2)
    context.add_callable("emit", send)
    context.eval(f"globalThis.characters = {characters}")
    return context, context.eval(prelude)


def allow_stack() -> int:
    """Let the stack grow to what a program may need, or as far as this process may: that many bytes."""
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    size = STACK_BYTES if hard == resource.RLIM_INFINITY else min(STACK_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_STACK, (size, hard))
    return size


def give_up() -> None:
    """What no program needs. Works without any privilege, as in Lambda; a child of root stops being root."""
    # Read now: there will be no more opening of files.
    time.tzset()
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    for name, value in LIMITS.items():
        resource.setrlimit(name, (value, value))


def send(*parts: str) -> None:
    """Write one message; the parts are JSON texts."""
    os.write(1, f"[{','.join(parts)}]\n".encode())


if __name__ == "__main__":
    main()
