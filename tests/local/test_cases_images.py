"""Section K of the reported faults: pictures by their bytes, upright, reduced, in bounded memory, and never invalid."""

from __future__ import annotations

import base64
import io
import os
import struct
import zlib
from typing import Any

import pytest
from PIL import Image

from local.system import LocalSystem
from tests.local import changed
from tests.local.talk import Talk, text
from workbench.workspace.views import decoding

RED, BLUE = (255, 0, 0), (0, 0, 255)


@pytest.fixture
def talk(api: Any, unique: str) -> Talk:
    return Talk.open(api, unique, model={"name": "m", "vision": True})


def encoded(image: Image.Image, kind: str, **more: Any) -> bytes:
    data = io.BytesIO()
    image.save(data, kind, **more)
    return data.getvalue()


def look(talk: Talk, data: bytes, name: str = "p.png") -> tuple[Image.Image, str]:
    """The picture that the model gets of ``data``, and what it is told."""
    talk.put(name, data)
    answer = talk.ok("read_file", path=name)
    (part,) = (part for part in answer["content"] if part["type"] == "image")
    raw = base64.b64decode(part["data"], validate=True)
    picture = Image.open(io.BytesIO(raw))
    assert part["mediaType"] == f"image/{(picture.format or '').lower()}"
    assert picture.format in ("PNG", "JPEG")
    assert max(picture.size) <= 1_568 and picture.width * picture.height <= 1_160_000
    picture.load()
    return picture, text(answer)


def near(pixel: Any, wanted: tuple[int, int, int]) -> bool:
    return all(abs(one - other) < 60 for one, other in zip(pixel[:3], wanted, strict=True))


@pytest.mark.parametrize("vision", [True, False])
def test_no_decoder_runs_where_the_credentials_are(
    api: Any, unique: str, monkeypatch: pytest.MonkeyPatch, vision: bool
) -> None:
    """With the process apart out of order, no picture is decoded in another place."""
    monkeypatch.setattr(decoding, "_PROGRAM", "raise SystemExit")
    talk = Talk.open(api, unique, model={"name": "m", "vision": vision})
    talk.put("p.png", encoded(Image.new("RGB", (4, 4), RED), "PNG"))
    assert "cannot be shown" in text(talk.call("read_file", path="p.png"))


def test_the_bytes_decide_and_not_the_name(talk: Talk) -> None:
    """Case 85: text, JSON, HTML and nothing at all under a picture's name; the next call works."""
    for name, data in (
        ("logo.png", b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
        ("shot.png", b'{"error":1}'),
        ("a.jpg", b"<html></html>"),
        ("b.png", b""),
    ):
        talk.put(name, data)
        answer = talk.ok("read_file", path=name)
        assert [part["type"] for part in answer["content"]] == ["text"]
        assert "not" in text(answer) or "bytes are text" in text(answer)
    talk.put("icon.svg", b"<svg/>\n")
    assert text(talk.ok("read_file", path="icon.svg")).startswith("1\t<svg/>")
    assert talk.ok("list_files")


@pytest.mark.parametrize(
    ("kind", "name"),
    [("JPEG", "photo.png"), ("WEBP", "x.jpg"), ("PNG", "none"), ("BMP", "y.txt"), ("TIFF", "t"), ("GIF", "g.png")],
)
def test_a_picture_goes_out_as_what_it_is(talk: Talk, kind: str, name: str) -> None:
    """Case 86."""
    picture, said = look(talk, encoded(Image.new("RGB", (40, 30), RED), kind), name)
    assert picture.size == (40, 30) and near(picture.convert("RGB").getpixel((20, 15)), RED)
    assert "40" in said and "30" in said


def test_pictures_are_shown_upright(talk: Talk) -> None:
    """Case 88: all eight ways a camera may have been held."""
    upright = Image.new("RGB", (100, 200), BLUE)
    upright.paste(RED, (0, 0, 100, 60))
    turns = Image.Transpose
    undo = {
        2: turns.FLIP_LEFT_RIGHT, 3: turns.ROTATE_180, 4: turns.FLIP_TOP_BOTTOM, 5: turns.TRANSPOSE,
        6: turns.ROTATE_90, 7: turns.TRANSVERSE, 8: turns.ROTATE_270,
    }  # fmt: skip
    for orientation in range(1, 9):
        stored = upright.transpose(undo[orientation]) if orientation in undo else upright
        exif = Image.Exif()
        exif[0x0112] = orientation
        picture, _ = look(talk, encoded(stored, "JPEG", exif=exif, quality=95), f"{orientation}.jpg")
        assert picture.size == (100, 200)
        shown = picture.convert("RGB")
        assert near(shown.getpixel((50, 10)), RED) and near(shown.getpixel((50, 190)), BLUE)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_a_corrupt_orientation_is_ignored(talk: Talk) -> None:
    """Case 88."""
    data = encoded(Image.new("RGB", (100, 50), RED), "JPEG")
    broken = data[:2] + b"\xff\xe1\x00\x10Exif\0\0MM\0*\xff\xff\xff\xff" + data[2:]
    assert look(talk, broken)[0].size == (100, 50)
    exif = Image.Exif()
    exif[0x0112] = 77
    assert look(talk, encoded(Image.new("RGB", (100, 50), RED), "JPEG", exif=exif))[0].size == (100, 50)


def test_every_kind_of_pixel_keeps_its_colour(talk: Talk) -> None:
    """Case 89: CMYK beyond the limit, grey with transparency, a transparent palette, one bit, sixteen bits."""
    cmyk = encoded(Image.new("RGB", (2_000, 1_000), RED).convert("CMYK"), "JPEG", quality=95)
    picture, _ = look(talk, cmyk)
    assert near(picture.convert("RGB").getpixel((20, 20)), RED)
    grey, _ = look(talk, encoded(Image.new("LA", (10, 10), (200, 128)), "PNG"))
    assert grey.convert("RGBA").getpixel((5, 5)) == (200, 200, 200, 128)
    palette = Image.new("RGBA", (10, 10), (*RED, 255))
    palette.putpixel((0, 0), (0, 0, 0, 0))
    shown, _ = look(talk, encoded(palette.quantize(4), "PNG"))
    assert near(shown.convert("RGB").getpixel((5, 5)), RED) and shown.convert("RGBA").getpixel((0, 0))[3] == 0
    bit, _ = look(talk, encoded(Image.new("1", (10, 10), 1), "PNG"))
    assert bit.convert("L").getpixel((5, 5)) == 255
    deep, _ = look(talk, encoded(Image.new("I;16", (10, 10), 32_768), "PNG"))
    assert 100 < deep.convert("L").getpixel((5, 5)) < 156


@pytest.mark.parametrize("size", [(10_000, 800), (1, 20_000), (2_100, 2_100)])
def test_large_pictures_are_reduced_and_their_size_is_told(talk: Talk, size: tuple[int, int]) -> None:
    """Case 91."""
    picture, said = look(talk, encoded(Image.new("RGB", size, BLUE), "PNG"))
    assert min(picture.size) >= 1 and near(picture.convert("RGB").getpixel((0, 0)), BLUE)
    plain = said.replace(",", "")
    assert str(size[0]) in plain and str(size[1]) in plain
    assert str(picture.width) in plain and str(picture.height) in plain


def png_header(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 10_000)) + chunk(b"IEND", b"")


def test_bombs_are_refused_by_their_header(talk: Talk) -> None:
    """Case 92: and the tool is still there afterwards."""
    for size in ((19_000, 19_000), (225_000, 225_000), (2**31 - 1, 1)):
        talk.put(f"{size[0]}.png", png_header(*size))
        answer = talk.call("read_file", path=f"{size[0]}.png")
        assert answer["error"]["code"] == "too_large" and len(answer["content"]) == 1
        assert answer["cost"]["milliseconds"] < 30_000
    frames = [Image.new("RGB", (8, 8), (number % 256, 0, number // 256)) for number in range(300)]
    _, said = look(talk, encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]), "film.gif")
    assert "irst frame" in said


def test_damaged_pictures_are_refused_in_words(talk: Talk) -> None:
    whole = encoded(Image.frombytes("RGB", (60, 60), os.urandom(60 * 60 * 3)), "PNG")
    holed = whole[:100] + b"\0" * 50 + whole[150:]
    for number, data in enumerate(
        (whole[:40], whole[: len(whole) // 2], holed, b"\xff\xd8\xff\xe0junk\0", b"\x89PNG\r\n\x1a\n" + b"junk" * 50)
    ):
        talk.put(f"p{number}.png", data)
        answer = talk.call("read_file", path=f"p{number}.png")
        assert answer["error"]["code"] == "unreadable_image" and len(text(answer)) > 20
    # Beside others it spoils none of them.
    talk.put("good.png", whole)
    answer = talk.ok("read_file", paths=["p0.png", "good.png", "none.png"])
    assert [part["type"] for part in answer["content"]] == ["text", "image"]
    assert [page.get("error", {}).get("code") for page in answer["structured"]["files"]] == [
        "unreadable_image", None, "not_found",
    ]  # fmt: skip


def test_a_model_without_vision_is_told_in_words(talk: Talk, unique: str) -> None:
    talk.put("p.png", encoded(Image.new("RGB", (40, 30), RED), "PNG"))
    blind = talk.again(model={"name": "m", "vision": False})
    answer = blind.ok("read_file", path="p.png")
    assert [part["type"] for part in answer["content"]] == ["text"]
    assert "left out" in text(answer) and "40" in text(answer)
    talk.put("d.zip", b"PK\x05\x06" + b"\0" * 18)
    said = text(blind.ok("read_file", path="d.zip"))
    assert "zip" in said and "22 bytes" in said and "run_code" in said
    assert "run_code" not in text(talk.again(["read_file"]).ok("read_file", path="d.zip"))


def test_an_answer_carries_no_more_pictures_than_it_can(talk: Talk, system: LocalSystem) -> None:
    """A function's answer has 6 MB: what does not fit is left out in words, and fits by itself."""
    noise = [encoded(Image.frombytes("RGBA", (720, 720), os.urandom(720 * 720 * 4)), "PNG", compress_level=0)] * 2
    large = encoded(Image.frombytes("RGBA", (1_200, 900), os.urandom(1_200 * 900 * 4)), "PNG", compress_level=0)
    files = {"0.png": noise[0], "1.png": noise[1], "large.png": large}
    changed.store_many(system, talk.conversation, files)
    raw = talk.send("read_file", {"paths": ["0.png", "1.png"]})
    assert raw.status == 200 and len(raw.body) < 6_000_000
    assert [part["type"] for part in raw.json["content"]] == ["text", "image"]
    assert "read this path by itself" in text(raw.json).lower()
    raw = talk.send("read_file", {"path": "large.png"})
    assert raw.status == 200 and len(raw.body) < 6_000_000
    assert [part["type"] for part in raw.json["content"]] == ["text", "image"]
