"""What the program prints: counted, kept up to a cap, shown by its end, and whole in a spill file when it is long."""

import codecs
import re

_UTF8_LONGEST = 4
_READ_ONLY_ROOT_HINT = (
    "\n[hint: the working directory itself cannot be written to. Files live under workspace/: "
    "open 'workspace/{name}' instead of '{path}'.]\n"
)
_DENIED = (
    re.compile(r"(?:PermissionError|OSError): \[Errno (?:1|13|30)\][^\n]*: '([^'\n]+)'"),  # Python
    re.compile(r"(?:EACCES|EROFS|EPERM)[^\n]*'([^'\n]+)'"),  # Node.js
    re.compile(r": cannot create ([^\n:]+): (?:Permission denied|Read-only file system)"),  # sh
    re.compile(r"cannot (?:touch|create directory|create regular file) '([^'\n]+)': (?:Permission|Read-only)"),
)
_HINT_WINDOW = 4000


class Output:
    """Two streams, each kept whole as long as both together are within ``most_bytes``."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self.stdout, self.stderr = bytearray(), bytearray()
        self.total = 0

    def add(self, stream: bytearray, data: bytes) -> None:
        self.total += len(data)
        room = self._most_bytes - len(self.stdout) - len(self.stderr)
        stream += data[: max(room, 0)]

    @property
    def too_large(self) -> bool:
        return self.total > self._most_bytes

    def tails(self, characters: int) -> tuple[str, str]:
        """The ends of both streams, together at most ``characters``; what one leaves, the other may use."""
        out, err = _tail(self.stdout, characters), _tail(self.stderr, characters)
        half = characters // 2
        out_share = max(half, characters - len(err))
        err_share = characters - min(len(out), out_share)
        return out[-out_share:], err[-err_share:] if err_share else ""

    def characters(self) -> int:
        """How many characters both streams hold."""
        return len(self.stdout.decode("utf-8", "replace")) + len(self.stderr.decode("utf-8", "replace"))

    def whole(self) -> bytes:
        """Both streams as one file; headed when there are two."""
        if not self.stderr:
            return bytes(self.stdout)
        if not self.stdout:
            return bytes(self.stderr)
        return b"== stdout ==\n" + self.stdout + b"\n== stderr ==\n" + self.stderr


def _tail(stream: bytearray, characters: int) -> str:
    cut = bytes(stream[-characters * _UTF8_LONGEST :])
    if len(cut) < len(stream):
        # The cut may have gone through a character: its remaining bytes are no damage of the program's.
        start = 0
        while start < min(_UTF8_LONGEST - 1, len(cut)) and cut[start] & 0xC0 == 0x80:
            start += 1
        cut = cut[start:]
    return codecs.decode(cut, "utf-8", "replace")[-characters:]


def root_hint(stderr: str, root: str) -> str:
    """A hint when the program failed to write directly in ``root``, its working directory; otherwise empty."""
    window = stderr[-_HINT_WINDOW:]
    for pattern in _DENIED:
        for path in pattern.findall(window):
            name = path.removeprefix(f"{root}/").removeprefix("./")
            if name and "/" not in name and name not in ("workspace", "inputs", "skills"):
                return _READ_ONLY_ROOT_HINT.format(name=name, path=path)
    return ""
