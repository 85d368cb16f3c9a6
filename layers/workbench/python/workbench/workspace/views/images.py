"""Pictures for a model, and what kind of file a binary one is; both judged by bytes, never by a name.

Pillow is imported when the first picture is looked at, and only the decoder that the bytes ask for: a name or a
header can choose none of the others. Everything raised here is a refusal in words; nothing is kept of the picture but
what is sent. A function never decodes by itself: it asks :mod:`.decoding`, which does so in a process apart.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any, cast

from workbench.errors import ToolError
from workbench.workspace.paths import printable

if TYPE_CHECKING:
    from PIL.Image import Image, Transpose

LONGER_SIDE_PIXELS = 1_568
SENT_PIXELS = 1_150_000
# A function's answer has 6 MB for everything, base64 included; only noise with transparency comes near.
SENT_BYTES = 3_900_000
# 50 million pixels take at most about 450 MB while they are converted.
DECODED_PIXELS = 50_000_000
# A progressive JPEG decodes its whole picture once for each scan; real ones have about ten.
JPEG_SCANS = 100
JPEG_QUALITY = 90

# Why a picture cannot be shown.
SCANS, DAMAGED, HEADER, NO_PIXELS, TOO_SLOW = REASONS = (
    "it has more scans than any real photo",
    "it is damaged or cut short",
    "its header is damaged",
    "it has no pixels",
    "decoding it takes too long",
)
# What is said of one that is shown.
FIRST_PAGE, FIRST_FRAME, TURNED = NOTES = (
    "First page of several.",
    "First frame of an animation.",
    "Turned upright as its EXIF orientation says.",
)

_ORIENTATION_TAG = 0x0112


@dataclass(frozen=True, slots=True)
class Kind:
    """What a file is: words that complete "a …", its media type and the Pillow plugin that decodes it, if any."""

    name: str
    media_type: str
    plugin: str = ""

    @property
    def is_picture(self) -> bool:
        """True for the pictures that can be shown to a model."""
        return bool(self.plugin)


PNG = Kind("PNG picture", "image/png", "Png")
JPEG = Kind("JPEG picture", "image/jpeg", "Jpeg")
GIF = Kind("GIF picture", "image/gif", "Gif")
WEBP = Kind("WebP picture", "image/webp", "WebP")
BMP = Kind("BMP picture", "image/bmp", "Bmp")
TIFF = Kind("TIFF picture", "image/tiff", "Tiff")

_ZIP = Kind("zip archive", "application/zip")
_OFFICE = "application/vnd.openxmlformats-officedocument."
# First bytes, at an offset. Order matters only where one signature begins another.
_SIGNATURES: tuple[tuple[int, bytes, Kind], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", PNG),
    (0, b"\xff\xd8\xff", JPEG),
    (0, b"GIF87a", GIF),
    (0, b"GIF89a", GIF),
    (0, b"II*\0", TIFF),
    (0, b"MM\0*", TIFF),
    (0, b"II+\0", TIFF),
    (0, b"MM\0+", TIFF),
    (0, b"%PDF-", Kind("PDF document", "application/pdf")),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Kind("document of an old Microsoft Office", "application/x-ole-storage")),
    (0, b"\x1f\x8b", Kind("gzip archive", "application/gzip")),
    (0, b"BZh", Kind("bzip2 archive", "application/x-bzip2")),
    (0, b"\xfd7zXZ\0", Kind("xz archive", "application/x-xz")),
    (0, b"7z\xbc\xaf\x27\x1c", Kind("7-Zip archive", "application/x-7z-compressed")),
    (0, b"\x28\xb5\x2f\xfd", Kind("zstd archive", "application/zstd")),
    (0, b"Rar!\x1a\x07", Kind("RAR archive", "application/vnd.rar")),
    (257, b"ustar", Kind("tar archive", "application/x-tar")),
    (0, b"SQLite format 3\0", Kind("SQLite database", "application/vnd.sqlite3")),
    (0, b"PAR1", Kind("Parquet table", "application/vnd.apache.parquet")),
    (0, b"ARROW1", Kind("Arrow table", "application/vnd.apache.arrow.file")),
    (0, b"Obj\x01", Kind("Avro file", "application/avro")),
    (0, b"\x89HDF\r\n\x1a\n", Kind("HDF5 file", "application/x-hdf5")),
    (0, b"\x93NUMPY", Kind("NumPy array", "application/x-npy")),
    (0, b"\x7fELF", Kind("program or library (ELF)", "application/x-elf")),
    (0, b"\0asm", Kind("WebAssembly module", "application/wasm")),
    (0, b"\xca\xfe\xba\xbe", Kind("compiled class or program", "application/octet-stream")),
    (0, b"MZ", Kind("Windows program", "application/vnd.microsoft.portable-executable")),
    (0, b"wOFF", Kind("font (WOFF)", "font/woff")),
    (0, b"wOF2", Kind("font (WOFF2)", "font/woff2")),
    (0, b"\0\1\0\0\0", Kind("font (TrueType)", "font/ttf")),
    (0, b"OTTO", Kind("font (OpenType)", "font/otf")),
    (0, b"ID3", Kind("MP3 recording", "audio/mpeg")),
    (0, b"fLaC", Kind("FLAC recording", "audio/flac")),
    (0, b"OggS", Kind("Ogg recording", "application/ogg")),
    (8, b"WAVE", Kind("WAV recording", "audio/wav")),
    (8, b"AVI ", Kind("AVI film", "video/x-msvideo")),
    (0, b"\x1a\x45\xdf\xa3", Kind("Matroska or WebM film", "video/x-matroska")),
    (4, b"ftypheic", Kind("HEIC picture", "image/heic")),
    (4, b"ftypheix", Kind("HEIC picture", "image/heic")),
    (4, b"ftypmif1", Kind("HEIF picture", "image/heif")),
    (4, b"ftypavif", Kind("AVIF picture", "image/avif")),
    (4, b"ftypqt", Kind("QuickTime film", "video/quicktime")),
    (4, b"ftyp", Kind("MP4 film or recording", "video/mp4")),
    (0, b"\0\0\0\x0cjP  ", Kind("JPEG 2000 picture", "image/jp2")),
    (0, b"8BPS", Kind("Photoshop picture", "image/vnd.adobe.photoshop")),
    (0, b"\0\0\1\0", Kind("icon (ICO)", "image/vnd.microsoft.icon")),
    (0, b"PK\x03\x04", _ZIP),
    (0, b"PK\x05\x06", _ZIP),
)
# Names that stand uncompressed in the zip files of these formats.
_INSIDE_ZIP = (
    (b"xl/workbook", Kind("Excel workbook", _OFFICE + "spreadsheetml.sheet")),
    (b"word/document", Kind("Word document", _OFFICE + "wordprocessingml.document")),
    (b"ppt/presentation", Kind("PowerPoint presentation", _OFFICE + "presentationml.presentation")),
    (b"mimetypeapplication/vnd.oasis.opendocument", Kind("OpenDocument file", "application/vnd.oasis.opendocument")),
    (b"mimetypeapplication/epub+zip", Kind("EPUB book", "application/epub+zip")),
    (b"META-INF/MANIFEST.MF", Kind("Java archive", "application/java-archive")),
)
_BMP_HEADER_SIZES = frozenset({12, 40, 52, 56, 64, 108, 124})
_PICTURE_ENDINGS = {
    "png": PNG,
    "jpg": JPEG,
    "jpeg": JPEG,
    "gif": GIF,
    "webp": WEBP,
    "bmp": BMP,
    "tif": TIFF,
    "tiff": TIFF,
}


def sniff(data: bytes) -> Kind | None:
    """The kind of a binary file by its bytes, None when they tell nothing. Ask only about files that are no text."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return WEBP
    if data[:2] == b"BM" and len(data) >= 18 and struct.unpack_from("<I", data, 14)[0] in _BMP_HEADER_SIZES:
        return BMP
    for offset, signature, kind in _SIGNATURES:
        if data.startswith(signature, offset):
            if kind is _ZIP:
                return next((inside for name, inside in _INSIDE_ZIP if name in data), kind)
            return kind
    return None


def begins_as_picture(data: bytes) -> bool:
    """True for a PNG or JPEG signature, which no text begins with: so also a damaged one without a NUL is a picture."""
    return data.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"))


def claimed_picture(path: str) -> Kind | None:
    """The picture that a name claims to be, by its ending; for saying that the bytes are something else."""
    stem, _, ending = path.rpartition(".")
    return _PICTURE_ENDINGS.get(ending.lower()) if stem else None


def describe_binary(path: str, data: bytes, *, offers: Callable[[str], bool] = lambda _: False) -> str:
    """One line on a binary file that is not shown: its kind, its size and, where it is offered, that code opens it."""
    kind = sniff(data)
    what = f"a {kind.name}" if kind else "a binary file of unknown kind"
    code = next(filter(offers, ("run_code", "execute")), None)
    advice = f" {code} can open it." if code else ""
    return f"{printable(path)} is {what} ({len(data):,} bytes), not text.{advice}"


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as it is sent: encoded bytes of ``media_type``; sizes in pixels, ``source`` as the file stores it."""

    media_type: str
    data: bytes
    size: tuple[int, int]
    kind: Kind
    source_size: tuple[int, int]
    source_bytes: int
    notes: tuple[str, ...] = ()

    def describe(self, path: str) -> str:
        """What the text part says: the kind, the original and the sent size, and what was done to it."""
        sent = self.media_type.rpartition("/")[2].upper()
        changed = "" if self.size == self.source_size else f" {_by(self.size)} pixels,"
        line = (
            f"{printable(path)}: {self.kind.name}, {_by(self.source_size)} pixels, {self.source_bytes:,} bytes;"
            f" sent as {sent},{changed} {len(self.data):,} bytes."
        )
        return " ".join([line, *self.notes])


class UnreadableImage(ToolError):
    """The bytes begin like a picture and cannot be decoded as one; ``reason`` is one of :data:`REASONS`."""

    code = "unreadable_image"

    def __init__(self, path: str, kind: Kind, reason: str) -> None:
        super().__init__(
            f"{printable(path)} begins like a {kind.name} but cannot be shown: {reason}. Put a whole picture in its "
            "place.",
            path=path,
        )
        self.reason = reason


class TooManyPixels(ToolError):
    """The header claims more pixels than are decoded; nothing was."""

    code = "too_large"

    def __init__(self, path: str, kind: Kind, size: tuple[int, int]) -> None:
        super().__init__(
            f"{printable(path)} is a {kind.name} of {_by(size)} pixels; at most {DECODED_PIXELS // 1_000_000} million "
            "pixels are opened. Make a smaller copy with code and read that.",
            path=path,
            width=size[0],
            height=size[1],
        )
        self.size = size


def picture_size(data: bytes, path: str, kind: Kind) -> tuple[int, int]:
    """(width, height) from the header alone; raises :class:`UnreadableImage` and :class:`TooManyPixels`."""
    return _opened(data, path, kind)[1]


def prepare(data: bytes, path: str, kind: Kind) -> Picture:
    """The picture ready for a model: upright, RGB or RGBA, reduced, as PNG or JPEG, whichever is smaller.

    Raises :class:`TooManyPixels` from the header, before anything is decoded, and :class:`UnreadableImage`.
    """
    image, size = _opened(data, path, kind)
    _check_pixels(size, path, kind)
    if kind is JPEG and data.count(b"\xff\xda") > JPEG_SCANS:
        raise UnreadableImage(path, kind, SCANS)
    try:
        shown, notes = _converted(image, kind, size)
        animated = _has_more_frames(image)
        media_type, encoded = _encoded(shown)
        while len(encoded) > SENT_BYTES:
            shown = shown.resize((shown.width * 3 // 4, shown.height * 3 // 4))
            media_type, encoded = _encoded(shown)
    except Exception as error:  # decoders answer hostile bytes with any exception there is
        raise UnreadableImage(path, kind, DAMAGED) from error
    if animated:
        notes.append(FIRST_PAGE if kind is TIFF else FIRST_FRAME)
    return Picture(media_type, encoded, shown.size, kind, size, len(data), tuple(notes))


def _by(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


def _check_pixels(size: tuple[int, int], path: str, kind: Kind) -> None:
    if size[0] * size[1] > DECODED_PIXELS:
        raise TooManyPixels(path, kind, size)


def _opened(data: bytes, path: str, kind: Kind) -> tuple[Image, tuple[int, int]]:
    """The picture with only its header read, and its size as stored."""
    claimed = _claimed_size(data, kind)
    if claimed:
        # Pillow makes the canvas of a WebP picture when it opens one, so the header is read here first.
        _check_pixels(claimed, path, kind)
    try:
        module = import_module(f"PIL.{kind.plugin}ImagePlugin")
        image: Image = getattr(module, f"{kind.plugin}ImageFile")(BytesIO(data))
    except Exception as error:  # as in prepare
        raise UnreadableImage(path, kind, HEADER) from error
    if image.size[0] < 1 or image.size[1] < 1:
        raise UnreadableImage(path, kind, NO_PIXELS)
    return image, image.size


def _claimed_size(data: bytes, kind: Kind) -> tuple[int, int] | None:
    """The size that stands at a fixed place in a header; None where the kind has none or the header is cut short."""
    header = data[:30]
    if kind is PNG and len(header) >= 24 and header[12:16] == b"IHDR":
        return struct.unpack_from(">II", header, 16)
    if kind is GIF and len(header) >= 10:
        return struct.unpack_from("<HH", header, 6)
    if kind is not WEBP or len(header) < 30:
        return None
    chunk = header[12:16]
    if chunk == b"VP8L":
        bits = int.from_bytes(header[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if chunk == b"VP8X":
        return int.from_bytes(header[24:27], "little") + 1, int.from_bytes(header[27:30], "little") + 1
    if chunk == b"VP8 ":
        width, height = struct.unpack_from("<HH", header, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


def _target(size: tuple[int, int]) -> tuple[int, int]:
    width, height = size
    scale = min(1.0, LONGER_SIDE_PIXELS / max(size), (SENT_PIXELS / (width * height)) ** 0.5)
    return max(1, int(width * scale)), max(1, int(height * scale))


def _converted(image: Any, kind: Kind, size: tuple[int, int]) -> tuple[Image, list[str]]:
    """The first frame, upright, reduced, in RGB or RGBA, and what a reader should know of that."""
    from PIL.Image import Resampling

    target = _target(size)
    if kind is JPEG:
        image.draft(None, target)  # decodes at a fraction of the size, never below the target
    image.load()  # a TIFF file is upright after this, and its size was that of the upright picture before
    notes: list[str] = []
    turn = _turn(image)
    plain = _eight_bits(image)
    if plain.size != target:
        plain = plain.resize(target, Resampling.LANCZOS, reducing_gap=2.0)
    plain = _rgb(plain, image.info.get("icc_profile"))
    if turn is not None:
        plain = plain.transpose(turn)
        notes.append(TURNED)
    return plain, notes


def _turn(image: Image) -> Transpose | None:
    """The transposition that makes the picture upright, None when it is or when its EXIF data make no sense."""
    from PIL.Image import Transpose

    try:
        orientation = image.getexif().get(_ORIENTATION_TAG)
    except Exception:  # noqa: BLE001 - a damaged tag says nothing about the picture
        return None
    if not isinstance(orientation, int):
        return None
    return {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }.get(orientation)


def _eight_bits(image: Image) -> Image:
    """The picture in a mode of 8 bits a channel that can be resized without mixing up what its values mean."""
    from PIL.Image import frombytes

    mode = image.mode
    if mode.startswith("I;16"):
        # Keep the high byte of each value, as Pillow does for 16-bit colour; its own conversion may clip instead.
        high = 0 if mode == "I;16B" else 1
        return frombytes("L", image.size, image.tobytes()[high::2])
    if mode in ("I", "F"):
        return _stretched(image)
    if image.has_transparency_data and mode not in ("RGBA", "LA", "PA", "RGBa", "La"):
        return image.convert("RGBA")
    if mode in ("RGB", "RGBA", "L", "LA", "CMYK", "LAB"):
        return image
    return image.convert({"1": "L", "P": "RGB", "PA": "RGBA", "La": "LA", "RGBa": "RGBA"}.get(mode, "RGB"))


def _stretched(image: Image) -> Image:
    """Numbers without a fixed range as shades: what fits 8 or 16 bits keeps its meaning, the rest its order."""
    low, high = cast("tuple[float, float]", image.getextrema())
    if image.mode == "I" and low >= 0 and high <= 0xFFFF:
        low, high = 0, 0xFF if high <= 0xFF else 0xFFFF
    elif low >= 0 and high <= 1:
        low, high = 0, 1
    scale = 255 / ((high - low) or 1)
    return image.point(lambda value: value * scale + (0.5 - low * scale)).convert("L")


def _rgb(image: Image, profile: bytes | None) -> Image:
    if image.mode in ("CMYK", "LAB") and profile:
        image = _by_profile(image, profile)
    if image.mode == "LAB":
        return _by_profile(image, None)
    if image.mode in ("RGBA", "LA"):
        image = image.convert("RGBA")
        opaque = image.getchannel("A").getextrema()[0] == 255
        return image.convert("RGB") if opaque else image
    return image.convert("RGB")


def _by_profile(image: Image, profile: bytes | None) -> Image:
    """Converted by its colour profile; unchanged when that is damaged or for something else."""
    from PIL import ImageCms

    try:
        source = ImageCms.ImageCmsProfile(BytesIO(profile)) if profile else ImageCms.createProfile("LAB")
        converted = ImageCms.profileToProfile(image, source, ImageCms.createProfile("sRGB"), outputMode="RGB")
        return converted or image
    except (ImageCms.PyCMSError, OSError, ValueError):
        if profile:
            return image
        raise


def _has_more_frames(image: Image) -> bool:
    """True for an animation or a file of several pages; looks one frame ahead, never counts them."""
    try:
        image.seek(1)
    except Exception:  # noqa: BLE001 - whatever stops it, there is no second frame to speak of
        return False
    return True


def _encoded(image: Image) -> tuple[str, bytes]:
    """(media type, bytes) of the smaller of PNG and JPEG; only PNG carries transparency."""
    png = BytesIO()
    image.save(png, "PNG")
    if image.mode == "RGB":
        jpeg = BytesIO()
        image.save(jpeg, "JPEG", quality=JPEG_QUALITY, optimize=True)
        if jpeg.tell() < png.tell():
            return "image/jpeg", jpeg.getvalue()
    return "image/png", png.getvalue()
