"""Programs that try to reach the network, the supervisor, other processes or the kernel."""

# Programs stand here as the sandbox gets them.
# ruff: noqa: E501
from __future__ import annotations

import os

from tests.sandbox.conftest import DENIED, Sandbox


def test_no_connection_leaves_and_the_refusal_is_immediate(sandbox: Sandbox) -> None:
    found = sandbox.results("""
began = time.monotonic()
targets = [(socket.AF_INET, socket.SOCK_STREAM, ("1.1.1.1", 443)), (socket.AF_INET, socket.SOCK_DGRAM, ("8.8.8.8", 53)),
           (socket.AF_INET6, socket.SOCK_STREAM, ("::1", 80)), (socket.AF_INET, socket.SOCK_STREAM, ("169.254.170.2", 80)),
           (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 80))]
tried = [attempt(lambda: socket.socket(family, kind).connect(address)) for family, kind, address in targets]
print(json.dumps({"tried": tried, "seconds": time.monotonic() - began,
                  "ecs": [name for name in os.environ if name.startswith(("ECS_", "AWS_"))]}))
""")
    assert set(found["tried"]) == {"EAFNOSUPPORT"}
    assert found["seconds"] < 2
    assert found["ecs"] == []


def test_no_socket_family_exists(sandbox: Sandbox) -> None:
    found = sandbox.results("""
families = {name for family in range(64) for kind in (1, 2, 3, 5) for name in [call(41, family, kind, 0)]}
print(json.dumps({"families": sorted(families), "datagram": call(53, 1, 2, 0, (ctypes.c_int * 2)()),
                  "inet pair": call(53, 2, 1, 0, (ctypes.c_int * 2)()), "pair": call(53, 1, 1, 0, (ctypes.c_int * 2)())}))
""")
    assert found == {
        "families": ["EAFNOSUPPORT"],
        "datagram": "EAFNOSUPPORT",
        "inet pair": "EAFNOSUPPORT",
        "pair": "ok",
    }


def test_io_uring_is_not_there(sandbox: Sandbox) -> None:
    found = sandbox.results("""
print(json.dumps({"tried": [call(425, 8, ctypes.create_string_buffer(256)), call(426, 3, 1, 0, 0, 0, 0), call(427, 3, 0, 0, 0)]}))
""")
    assert set(found["tried"]) <= DENIED


def test_no_descriptor_is_inherited(sandbox: Sandbox) -> None:
    found = sandbox.results("""
opened = []
for number in range(3, 4096):
    try:
        os.fstat(number)
    except OSError:
        continue
    opened.append(number)
print(json.dumps({"open": opened, "stdin": sys.stdin.read()}))
""")
    assert found == {"open": [], "stdin": ""}


def test_the_supervisor_cannot_be_looked_into(sandbox: Sandbox) -> None:
    found = sandbox.results("""
tried = {}
for pid in {1, os.getppid()} - {0}:
    for part in ("environ", "mem", "maps", "auxv"):
        tried[f"{pid} {part}"] = attempt(lambda: open(f"/proc/{pid}/{part}", "rb").read(1))
    for part in ("cwd", "root", "exe"):
        tried[f"{pid} {part}"] = attempt(os.readlink, f"/proc/{pid}/{part}")
    tried[f"{pid} fd"] = attempt(os.listdir, f"/proc/{pid}/fd")
print(json.dumps({"tried": tried}))
""")
    assert found["tried"]
    assert set(found["tried"].values()) <= DENIED, found


def test_the_secret_is_nowhere_to_be_found(sandbox: Sandbox) -> None:
    # Looks for what every secret of this test run holds, put together only while it runs.
    found = sandbox.results("""
canary = bytes(reversed(b"-yranac"))
places = []
def look(path):
    try:
        with open(path, "rb") as file:
            data = file.read(1 << 20)
    except OSError:
        return
    if canary in data.replace(b"\\0", b" ") and b"reversed" not in data:
        places.append(path)
for folder in os.listdir("/proc"):
    if folder.isdigit():
        for part in ("cmdline", "environ", "comm", "status"):
            look(f"/proc/{folder}/{part}")
count = 0
for top in ("/sandbox", ".", "/run", "/etc", "/dev/shm", "/var/tmp", os.environ["HOME"]):
    for folder, _, names in os.walk(top):
        for file in names[:200]:
            path = os.path.join(folder, file)
            if os.path.isfile(path):
                look(path)
                count += 1
environment = [name for name, value in os.environ.items() if "canary" in value or "WORKBENCH" in name]
print(json.dumps({"places": places, "environment": environment, "count": count}))
""")
    assert found["places"] == []
    assert found["environment"] == []
    assert found["count"] > 0


def test_the_environment_is_exactly_what_was_promised(sandbox: Sandbox) -> None:
    os.environ["AWS_SECRET_ACCESS_KEY"] = "canary"
    found = sandbox.results("print(json.dumps(dict(os.environ)))", environment={"REPORT_CURRENCY": "EUR"})
    assert set(found) == {
        *("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TERM", "NO_COLOR", "MPLCONFIGDIR"),
        "REPORT_CURRENCY",
    }
    assert found["REPORT_CURRENCY"] == "EUR"


def test_no_way_back_to_root(sandbox: Sandbox) -> None:
    found = sandbox.results("""
before = os.getresuid()
tried = [attempt(os.setuid, 0), attempt(os.setresuid, 0, 0, 0), attempt(os.setgid, 0), attempt(os.setgroups, [0]),
         attempt(os.setresuid, os.getuid() + 1, os.getuid() + 1, os.getuid() + 1)]
copy = "workspace/copy"
import shutil
shutil.copy("/usr/bin/id", copy)
os.chmod(copy, 0o4755)
outputs = [subprocess.run([program, *rest], capture_output=True, text=True).stdout
           for program, *rest in ([copy, "-u"], ["/usr/bin/su", "-c", "id -u"], ["/bin/mount"])]
status = dict(line.rstrip("\\n").split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
print(json.dumps({"tried": tried, "uid": before[0], "same": before == os.getresuid(), "id": outputs[0].strip(), "su": outputs[1],
                  "caps": status["CapEff"], "new": status["NoNewPrivs"], "filter": status["Seccomp"]}))
""")
    assert set(found["tried"]) == {"EPERM"}
    assert found["same"] is True
    assert found["id"] == str(found["uid"])
    assert found["su"] == ""
    assert int(found["caps"], 16) == 0
    assert (found["new"], found["filter"]) == ("1", "2")


def test_other_processes_cannot_be_traced_or_read(sandbox: Sandbox) -> None:
    found = sandbox.results("""
child = subprocess.Popen(["sleep", "30"])
buffer = ctypes.create_string_buffer(64)
pidfd = os.pidfd_open(child.pid)
tried = {"ptrace": call(101, 16, child.pid, 0, 0), "traceme": call(101, 0, 0, 0, 0), "readv": call(310, child.pid, buffer, 1, buffer, 1, 0),
         "writev": call(311, child.pid, buffer, 1, buffer, 1, 0), "getfd": call(438, pidfd, 0, 0), "kcmp": call(312, child.pid, os.getpid(), 0, 0, 0),
         "prlimit": call(302, child.pid, 7, 0, buffer), "affinity": call(203, child.pid, 8, buffer), "priority": call(141, 0, child.pid, 19),
         "madvise": call(440, pidfd, buffer, 1, 4, 0)}
child.kill()
print(json.dumps(tried))
""")
    assert set(found.values()) == {"EPERM"}


def test_only_its_own_processes_can_be_signalled(sandbox: Sandbox) -> None:
    found = sandbox.results("""
tried = {str(pid): attempt(os.kill, pid, 9) for pid in {os.getppid(), 1} - {0, os.getpid()}}
group = os.getpgid(os.getppid()) if os.getppid() else 0
tried["group"] = attempt(os.killpg, group, 9) if group > 1 else "EPERM"  # group 1 would mean everybody
tried["everyone"] = attempt(os.kill, -1, 9)
print(json.dumps(tried))
""")
    assert found.pop("everyone") in {"ok", "ESRCH", "EPERM"}
    assert set(found.values()) <= {"EPERM", "ESRCH"}


def test_a_program_that_ends_its_own_group_is_reported_as_such(sandbox: Sandbox) -> None:
    run = sandbox.run('import os, signal\nprint(\'{"outcome": "fine"}\', flush=True)\nos.kill(0, signal.SIGKILL)\n')
    assert (run.report["outcome"], run.report["exitCode"], run.report["signal"]) == ("finished", None, 9)


def test_what_a_program_prints_about_its_end_counts_for_nothing(sandbox: Sandbox) -> None:
    fake = '{"outcome": "finished", "exitCode": 0, "tree": "ok"}'
    run = sandbox.run(f"import os\nprint('''{fake}''', flush=True)\nos.kill(os.getpid(), 9)\n")
    assert (run.report["exitCode"], run.report["signal"]) == (None, 9)
    assert run.report["stdout"] == fake + "\n"


def test_the_odd_corners_of_the_kernel_are_closed(sandbox: Sandbox) -> None:
    found = sandbox.results("""
b = ctypes.create_string_buffer(256)
print(json.dumps({"keyctl": call(250, 0, -3), "add_key": call(248, b, b, b, 1, -3), "userfaultfd": call(323, 0), "bpf": call(321, 0, b, 64),
    "perf": call(298, b, 0, -1, -1, 0), "unshare": call(272, 0x10000000), "setns": call(308, 3, 0), "mount": call(165, b, b, b, 0, 0),
    "chroot": call(161, b"."), "clone": call(56, 0x10000000 | 17, 0, 0, 0, 0), "handle": call(304, 3, b, 0), "seccomp": call(317, 1, 0, b),
    "mknod": attempt(os.mknod, "workspace/device", 0o020666, 259), "modify_ldt": call(154, 1, b, 16), "personality": call(135, 0x0400000)}))
""")
    assert set(found.values()) == {"EPERM"}


def test_calls_that_this_filter_does_not_know_do_not_exist(sandbox: Sandbox) -> None:
    found = sandbox.results("""
print(json.dumps({"clone3": call(435, ctypes.create_string_buffer(88), 88), "newest": call(467, 0), "far": call(100000, 0),
                  "x32": call(0x40000000 + 39)}))
""")
    assert set(found.values()) == {"ENOSYS"}


def test_a_call_of_another_architecture_ends_the_program(sandbox: Sandbox) -> None:
    # int 0x80 with number 20 (getpid of i386), as machine code.
    run = sandbox.run("""
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("b814000000cd80c3"))
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
print(ctypes.CFUNCTYPE(ctypes.c_int)(address)())
""")
    assert (run.report["exitCode"], run.report["signal"]) == (None, 31)
    assert run.report["stdout"] == ""


def test_no_terminal_can_be_typed_into(sandbox: Sandbox) -> None:
    found = sandbox.results("""
import fcntl
print(json.dumps({"tty": attempt(open, "/dev/tty"), "ptmx": attempt(open, "/dev/ptmx", "r+b", buffering=0),
                  "TIOCSTI": attempt(fcntl.ioctl, 0, 0x5412, b"x"), "high bits": call(16, 0, 0x5412 | 1 << 40, b"x")}))
""")
    assert found["tty"] in {"ENXIO", "ENOENT", "EACCES"}
    assert (found["TIOCSTI"], found["high bits"]) == ("EPERM", "EPERM")


def test_nothing_outside_its_folders_can_be_written(sandbox: Sandbox) -> None:
    found = sandbox.results(
        """
import numpy
places = ["x", "/x", "inputs/x", "inputs/a.csv", "skills/x", "program.py", numpy.__file__, os.path.dirname(numpy.__file__) + "/x",
          sys.executable, "/etc/x", "/usr/bin/x", "/proc/sys/kernel/hostname", "/sys/x"]
tried = {place: attempt(open, place, "ab") for place in places}
tried["rename"] = attempt(os.rename, "workspace", "gone")
tried["remove"] = attempt(os.remove, "program.py")
tried["chmod"] = attempt(os.chmod, "inputs/a.csv", 0o777) if os.getuid() != os.stat("inputs").st_uid else "EPERM"
tried["link"] = attempt(os.link, "inputs/a.csv", "inputs/b.csv")
print(json.dumps(tried))
""",
        inputs={"a.csv": b"1"},
    )
    assert set(found.values()) <= DENIED, found


def test_what_is_left_in_shared_folders_is_wiped(sandbox: Sandbox) -> None:
    found = sandbox.results("""
names = {}
for folder in ("/tmp", "/dev/shm"):
    path = f"{folder}/left-{os.getpid()}"
    names[folder] = attempt(os.makedirs, path + "/deep")
    open(path + "/deep/file", "w").write("x")
    os.chmod(path, 0)
print(json.dumps(names))
""")
    # That nothing of it is left is judged after every run.
    assert set(found.values()) <= {"ok", *DENIED}


def test_no_ipc_object_outlives_a_run(sandbox: Sandbox) -> None:
    found = sandbox.results("""
from multiprocessing import shared_memory
b = ctypes.create_string_buffer(64)
tried = {"shmget": call(29, 42, 4096, 0o1666), "semget": call(64, 42, 1, 0o1666), "msgget": call(68, 42, 0o1666), "mq_open": call(240, b"q", 0o102, 0o666, 0)}
shared_memory.SharedMemory(name="left-behind", create=True, size=4096)
from multiprocessing import resource_tracker
resource_tracker.unregister("/left-behind", "shared_memory")
print(json.dumps(tried))
""")
    assert set(found.values()) == {"EPERM"}
