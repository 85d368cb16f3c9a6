"""Pictures decoded apart: the same pictures and the same words, and nothing to be had for who takes a decoder over."""

from __future__ import annotations

import json
import time
from io import BytesIO
from typing import Any

import pytest
from PIL import Image, ImageCms

from workbench import apart
from workbench.workspace.views import decoding, images
from workbench.workspace.views.images import TooManyPixels, UnreadableImage, sniff


def encoded(image: Image.Image, form: str, **options: Any) -> bytes:
    out = BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def turned() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded(GRADIENT, "JPEG", exif=exif)


GRADIENT = Image.linear_gradient("L").convert("RGB")
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
PNG = encoded(GRADIENT, "PNG")
PICTURES = {
    **{form: encoded(GRADIENT, form) for form in ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")},
    "turned": turned(),
    "animated": encoded(GRADIENT, "GIF", save_all=True, append_images=[GRADIENT.rotate(90)]),
    "transparent": encoded(Image.new("RGBA", (9, 9), (0, 0, 255, 100)), "WEBP"),
    "by a profile": encoded(Image.new("LAB", (9, 9), (100, 20, 30)), "TIFF", icc_profile=PROFILE),
    "packed": encoded(GRADIENT, "TIFF", compression="tiff_lzw"),
    "large": encoded(Image.new("RGB", (3_000, 2_000), (1, 2, 3)), "PNG"),
}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tested is the answer; on a busy machine a process may wait long for its turn."""
    monkeypatch.setattr(decoding, "SECONDS", 60.0)


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_is_missed_for_want_of_a_file(name: str) -> None:
    data = PICTURES[name]
    kind = sniff(data)
    assert kind is not None
    assert decoding.prepare(data, "a", kind) == images.prepare(data, "a", kind)
    assert decoding.picture_size(data, "a", kind) == images.picture_size(data, "a", kind)


@pytest.mark.parametrize(
    ("data", "kind"),
    [(PNG[:40], images.PNG), (PNG[:200], images.PNG), (b"BM" + bytes(40), images.BMP), (b"", images.JPEG)],
)
def test_refusals_have_the_same_words(data: bytes, kind: images.Kind) -> None:
    refusals = []
    for prepare in (images.prepare, decoding.prepare):
        with pytest.raises(UnreadableImage) as refused:
            prepare(data, "a\n.png", kind)
        refusals.append(refused.value.as_dict())
    assert refusals[0] == refusals[1]


def test_a_picture_of_too_many_pixels_is_refused_by_its_header() -> None:
    header = PNG[:16] + (20_000).to_bytes(4, "big") * 2 + PNG[24:]
    with pytest.raises(TooManyPixels) as refused:
        decoding.prepare(header, "a.png", images.PNG)
    assert (refused.value.details["width"], refused.value.details["height"]) == (20_000, 20_000)


@pytest.mark.parametrize("plugin", ["Png", "Jpeg", "Gif", "WebP", "Bmp", "Tiff"])
def test_whoever_takes_a_decoder_over_has_no_file_no_socket_and_no_credentials(
    monkeypatch: pytest.MonkeyPatch, plugin: str
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    program = (
        "import os, json, socket\n"
        "from workbench import apart\n"
        "from workbench.workspace.views import decoding_child as child\n"
        "{closed}\n"
        "said = [sorted(os.environ)]\n"
        "for what in (socket.socket, os.pipe, lambda: os.open('/etc/passwd', 0), lambda: bytearray(2 << 30)):\n"
        "    try: what(); said.append('done')\n"
        "    except (OSError, MemoryError): said.append('refused')\n"
        "print(json.dumps(said))"
    )

    def said(closed: str) -> Any:
        return json.loads(apart.run(program.format(closed=closed), [], b"", seconds=60, most=10_000))

    environment, *tried = said(f"apart.limit(); child.load({plugin!r}); apart.shut()")
    assert set(environment) <= {"LANG", "LC_CTYPE", "LD_LIBRARY_PATH", "TZ"}
    assert tried == ["refused"] * 4
    assert said("pass")[1:4] == ["done"] * 3


@pytest.mark.parametrize(
    "program",
    [
        "import os; os.kill(os.getpid(), 9)",
        "print('not JSON')",
        "print('{}')",
        "print('[]')",
        "print('[' * 1_900)",
        'print(\'{"refused": "do as I say"}\')',
        'print(\'{"pixels": "many"}\')',
        "print('{\"pixels\": [1, 99999999999999]}')",
        "print('{\"size\": [true, 1]}')",
        # Said to be a PNG picture, and none.
        'print(\'{"mediaType": "image/png", "size": [1], "sourceSize": [1, 1], "notes": []}\\nGIF89a\')',
        'print(\'{"mediaType": "text/html", "size": [1], "sourceSize": [1, 1], "notes": []}\\n<p>\')',
    ],
)
def test_whatever_the_child_answers_is_checked(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(decoding, "_PROGRAM", program)
    for ask in (decoding.prepare, decoding.picture_size):
        with pytest.raises(UnreadableImage) as refused:
            ask(PNG, "a.png", images.PNG)
        assert refused.value.reason == images.DAMAGED


@pytest.mark.parametrize(
    ("changed", "behind"),
    [
        ({}, b"GIF89a"),
        ({"mediaType": "image/jpeg"}, PNG),
        ({"mediaType": "text/html"}, PNG),
        ({"size": [9_999, 1]}, PNG),
        ({"notes": 5}, PNG),
        ({}, PNG + bytes(1_000_000)),
    ],
)
def test_what_is_no_picture_is_not_passed_on(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], behind: bytes
) -> None:
    monkeypatch.setattr(images, "SENT_BYTES", 1_000_000)
    head = {"mediaType": "image/png", "size": [1, 1], "sourceSize": [1, 1], "notes": ["Obey.", images.TURNED]}
    program = "sys.stdout.buffer.write({!r} + b'\\n' + sys.stdin.buffer.read())"
    monkeypatch.setattr(decoding, "_PROGRAM", program.format(json.dumps(head).encode()))
    assert decoding.prepare(PNG, "a.png", images.PNG).notes == (images.TURNED,)
    monkeypatch.setattr(decoding, "_PROGRAM", program.format(json.dumps(head | changed).encode()))
    with pytest.raises(UnreadableImage):
        decoding.prepare(behind, "a.png", images.PNG)


@pytest.mark.parametrize("program", ["while True: pass", "while True: sys.stdout.write('x' * 100_000)"])
def test_one_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(decoding, "_PROGRAM", program)
    monkeypatch.setattr(decoding, "SECONDS", 1.0)
    monkeypatch.setattr(images, "SENT_BYTES", 1_000_000)
    began = time.monotonic()
    with pytest.raises(UnreadableImage, match="takes too long"):
        decoding.prepare(PNG, "a.png", images.PNG)
    # Less than the processor time that it may have.
    assert time.monotonic() - began < apart.PROCESSOR_SECONDS - 5
