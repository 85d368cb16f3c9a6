"""Pictures for a model: judged by bytes, upright, faithful, small, and refused in words when they cannot be shown."""

import struct
import subprocess
import sys
import time
import zlib
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms

from workbench.workspace.views import images
from workbench.workspace.views.images import (
    BMP,
    DECODED_PIXELS,
    GIF,
    JPEG,
    LONGER_SIDE_PIXELS,
    PNG,
    SENT_PIXELS,
    TIFF,
    WEBP,
    TooManyPixels,
    UnreadableImage,
    claimed_picture,
    describe_binary,
    picture_size,
    prepare,
    sniff,
)

LAYER = str(Path(images.__file__).parents[2])
RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)
FORMATS = {"PNG": PNG, "JPEG": JPEG, "GIF": GIF, "WEBP": WEBP, "BMP": BMP, "TIFF": TIFF}


def encoded(image, form="PNG", **options):
    out = BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def shown(data, path="a.png"):
    picture = prepare(data, path, sniff(data))
    image = Image.open(BytesIO(picture.data))
    image.load()
    assert image.size == picture.size
    assert f"image/{image.format.lower()}" == picture.media_type
    return image


def near(pixel, colour, tolerance=12):
    return all(abs(a - b) <= tolerance for a, b in zip(pixel[:3], colour, strict=False))


def halves(size=(40, 20), top=RED, bottom=BLUE):
    image = Image.new("RGB", size, bottom)
    image.paste(top, (0, 0, size[0], size[1] // 2))
    return image


def chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png_header(width, height, depth=8, colour=2):
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))


# ---------------------------------------------------------------- kinds


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("path", ["photo.png", "x.jpg", "noending"])
def test_case_86_the_bytes_name_the_kind_and_what_is_sent_is_what_it_says(form, path):
    data = encoded(halves(), form)
    assert sniff(data) is FORMATS[form]
    image = shown(data, path)
    assert near(image.convert("RGB").getpixel((20, 2)), RED)
    assert near(image.convert("RGB").getpixel((20, 17)), BLUE)


@pytest.mark.parametrize("data", [b"", b"<svg/>", b'{"error":1}', b"<html>", b"BMX is text", b"\x89PN", b"RIFF1234WAV"])
def test_case_85_text_is_no_picture_whatever_its_name(data):
    assert sniff(data) is None


def test_case_85_a_name_can_be_told_that_it_claims_too_much():
    assert claimed_picture("shots/Logo.PNG") is PNG
    assert claimed_picture("a.jpeg") is JPEG
    assert claimed_picture("logo.svg") is None
    assert claimed_picture("png") is None


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PK\x03\x04" + bytes(30) + b"xl/workbook.xml", "Excel workbook"),
        (b"PK\x03\x04" + bytes(30) + b"word/document.xml", "Word document"),
        (b"PK\x03\x04" + bytes(30), "zip archive"),
        (b"%PDF-1.7\n\0", "PDF document"),
        (b"SQLite format 3\0", "SQLite database"),
        (b"\x1f\x8b\x08\0", "gzip archive"),
        (bytes(257) + b"ustar\0", "tar archive"),
        (b"RIFF\0\0\0\0WAVEfmt ", "WAV recording"),
        (b"\0\0\0\x20ftypheic", "HEIC picture"),
        (b"\0\x01\x02\x03", "binary file of unknown kind"),
    ],
)
def test_another_binary_is_told_by_kind_and_size_and_that_code_opens_it(data, words):
    line = describe_binary("d/x\n.bin", data, offers=lambda tool: tool == "run_code")
    assert words in line
    assert f"{len(data):,} bytes" in line
    assert "run_code" in line
    assert line.isprintable()


def test_a_turn_without_run_code_is_not_told_of_it():
    assert "run_code" not in describe_binary("a.zip", b"PK\x03\x04\0", offers=lambda tool: False)


# ---------------------------------------------------------------- upright


def stored_for(orientation, upright):
    """What a camera stores so that a viewer obeying the tag shows ``upright``."""
    undo = {
        1: None,
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }[orientation]
    return upright if undo is None else upright.transpose(undo)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_case_88_every_orientation_is_shown_upright(form, orientation):
    upright = halves((100, 200))
    upright.paste(GREEN, (0, 0, 30, 30))  # tells mirrored from turned
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(stored_for(orientation, upright), form, exif=exif)
    image = shown(data).convert("RGB")
    assert image.size == (100, 200)
    assert near(image.getpixel((10, 10)), GREEN, 40)
    assert near(image.getpixel((80, 50)), RED, 40)
    assert near(image.getpixel((50, 150)), BLUE, 40)


def test_case_88_the_text_gives_the_stored_and_the_sent_size():
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded(halves((200, 100)), "JPEG", exif=exif)
    words = prepare(data, "p.jpg", JPEG).describe("p.jpg")
    assert "200x100" in words
    assert "100x200" in words
    assert "upright" in words


@pytest.mark.parametrize(
    "exif",
    [
        b"Exif\0\0garbage",
        b"Exif\0\0II*\0\xff\xff\xff\xff",
        b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x63\0\0\0\0\0\0\0",  # orientation 99
        b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x02\0\x01\0\0\0\x36\0\0\0\0\0\0\0",  # orientation as text
        b"Exif\0\0II*\0\x08\0\0\0\xff\xff\x12\x01\x03\0\x01\0\0\0\x06",  # cut short
        b"",
    ],
)
def test_case_88_corrupt_exif_is_ignored(exif):
    image = shown(encoded(halves((200, 100)), "JPEG", exif=exif))
    assert image.size == (200, 100)
    assert near(image.convert("RGB").getpixel((100, 20)), RED)


# ---------------------------------------------------------------- colours


def test_case_89_a_large_cmyk_jpeg_keeps_its_colours():
    cmyk = halves((3000, 2000)).convert("CMYK")
    image = shown(encoded(cmyk, "JPEG", quality=95))
    assert image.mode == "RGB"
    assert max(image.size) <= LONGER_SIDE_PIXELS
    assert near(image.getpixel((10, 10)), RED, 20)
    assert near(image.getpixel((10, image.height - 10)), BLUE, 20)


def test_case_89_a_damaged_colour_profile_is_ignored():
    cmyk = halves().convert("CMYK")
    image = shown(encoded(cmyk, "TIFF", icc_profile=b"not a profile"))
    assert near(image.convert("RGB").getpixel((5, 2)), RED, 20)


def test_case_89_lab_is_shown_in_its_colours():
    to_lab = ImageCms.buildTransform(ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), "RGB", "LAB")
    lab = ImageCms.applyTransform(halves(top=(200, 30, 30), bottom=(30, 30, 200)), to_lab)
    image = shown(encoded(lab, "TIFF")).convert("RGB")
    assert near(image.getpixel((5, 2)), (200, 30, 30), 25)
    assert near(image.getpixel((5, 17)), (30, 30, 200), 25)


def test_case_89_grey_with_transparency():
    image = Image.new("LA", (20, 20), (200, 255))
    image.paste((0, 0), (0, 0, 10, 20))
    out = shown(encoded(image))
    assert out.mode == "RGBA"
    assert out.getpixel((2, 2))[3] == 0
    assert out.getpixel((15, 2)) == (200, 200, 200, 255)


@pytest.mark.parametrize("form", ["PNG", "GIF"])
def test_case_89_palette_with_transparency(form):
    image = Image.new("P", (20, 20), 0)
    image.putpalette([*RED, *BLUE, *WHITE])
    image.paste(1, (0, 0, 10, 20))
    out = shown(encoded(image, form, transparency=1))
    assert out.mode == "RGBA"
    assert out.getpixel((2, 2))[3] == 0
    assert out.getpixel((15, 2)) == (*RED, 255)


def test_case_89_a_palette_without_transparency_is_not_smeared_by_reducing():
    image = Image.new("P", (3000, 3000), 0)
    image.putpalette([*RED, *GREEN, *BLUE])
    image.paste(2, (0, 1500, 3000, 3000))
    out = shown(encoded(image)).convert("RGB")
    assert near(out.getpixel((5, 5)), RED)
    assert near(out.getpixel((5, out.height - 5)), BLUE)


@pytest.mark.parametrize("form", ["PNG", "TIFF", "BMP"])
def test_case_89_one_bit_pictures(form):
    image = Image.new("1", (20, 20), 0)
    image.paste(1, (0, 0, 10, 20))
    out = shown(encoded(image, form)).convert("RGB")
    assert near(out.getpixel((2, 2)), WHITE)
    assert near(out.getpixel((15, 2)), (0, 0, 0))


def test_case_89_transparency_of_a_single_colour():
    out = shown(encoded(halves(), transparency=RED))
    assert out.getpixel((5, 2))[3] == 0
    assert out.getpixel((5, 17)) == (*BLUE, 255)


def test_case_89_full_transparency_does_not_bleed_into_what_is_seen():
    image = Image.new("RGBA", (3136, 100), (*GREEN, 0))
    image.paste((*RED, 255), (0, 0, 1568, 100))
    out = shown(encoded(image))
    seen = [pixel for pixel in out.get_flattened_data() if pixel[3] > 8]
    assert seen
    assert all(near(pixel, RED, 16) for pixel in seen)


def test_an_opaque_alpha_channel_is_dropped():
    assert shown(encoded(halves().convert("RGBA"))).mode == "RGB"


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
@pytest.mark.parametrize("big_endian", [False, True])
def test_sixteen_bit_grey_is_scaled_not_clipped(form, big_endian):
    values = [0, 0x2000, 0x8000, 0xFFFF]
    raw = struct.pack((">" if big_endian else "<") + "4H", *values)
    mode = "I;16B" if big_endian else "I;16"
    out = shown(encoded(Image.frombytes(mode, (4, 1), raw), form)).convert("L")
    assert list(out.get_flattened_data()) == [0, 0x20, 0x80, 0xFF]


def test_sixteen_bit_colour_keeps_its_high_bytes():
    row = b"\0" + struct.pack(">6H", 0xFFFF, 0, 0, 0, 0x8000, 0xFFFF)
    data = png_header(2, 1, 16, 2) + chunk(b"IDAT", zlib.compress(row)) + chunk(b"IEND", b"")
    out = shown(data).convert("RGB")
    assert list(out.get_flattened_data()) == [RED, (0, 0x80, 0xFF)]


def test_numbers_without_a_range_become_shades_in_order():
    image = Image.new("F", (3, 1))
    image.putdata([-5.0, 0.0, 5.0])
    out = shown(encoded(image, "TIFF")).convert("L")
    assert near([out.getpixel((0, 0))], [0], 2)
    assert near([out.getpixel((1, 0))], [127], 2)
    assert near([out.getpixel((2, 0))], [255], 2)


# ---------------------------------------------------------------- sizes


@pytest.mark.parametrize("size", [(10000, 800), (1, 20000), (20000, 1), (2100, 2100), (1568, 733), (1569, 1), (1, 1)])
def test_case_91_pictures_are_reduced_by_side_and_by_area(size):
    data = encoded(Image.new("RGB", size, RED))
    picture = prepare(data, "a.png", PNG)
    width, height = picture.size
    assert min(width, height) >= 1
    assert max(width, height) <= LONGER_SIDE_PIXELS
    assert width * height <= SENT_PIXELS
    assert f"{size[0]}x{size[1]}" in picture.describe("a.png")
    assert f"{len(data):,} bytes" in picture.describe("a.png")
    if size != (width, height):
        assert f"{width}x{height}" in picture.describe("a.png")


@settings(deadline=None)
@given(st.tuples(st.integers(1, 60_000), st.integers(1, 60_000)))
def test_the_target_never_grows_and_keeps_the_shape(size):
    width, height = images._target(size)
    assert 1 <= width <= size[0]
    assert 1 <= height <= size[1]
    assert max(width, height) <= LONGER_SIDE_PIXELS
    assert width * height <= SENT_PIXELS
    assert min(width, height) == 1 or abs(width / height - size[0] / size[1]) < 0.51 * (width + height) / height


def test_whichever_of_png_and_jpeg_is_smaller_is_sent():
    noise = Image.effect_noise((300, 300), 100).convert("RGB")
    assert prepare(encoded(noise), "a.png", PNG).media_type == "image/jpeg"
    assert prepare(encoded(halves((300, 300)), "JPEG"), "a.jpg", JPEG).media_type == "image/png"


# ---------------------------------------------------------------- animations


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP"])
def test_the_first_frame_of_an_animation_is_shown_and_said_so(form):
    options = {"lossless": True} if form == "WEBP" else {}
    frames = [Image.new("RGB", (20, 20), colour) for colour in (RED, GREEN, BLUE)]
    data = encoded(frames[0], form, save_all=True, append_images=frames[1:], duration=50, **options)
    picture = prepare(data, "a.gif", sniff(data))
    assert near(shown(data).convert("RGB").getpixel((5, 5)), RED)
    assert "animation" in picture.describe("a.gif")


def test_the_first_page_of_a_tiff_is_shown_and_said_so():
    data = encoded(halves(), "TIFF", save_all=True, append_images=[halves(top=GREEN)])
    assert near(shown(data).convert("RGB").getpixel((5, 2)), RED)
    assert "First page" in prepare(data, "a.tif", TIFF).describe("a.tif")


def test_a_still_picture_is_no_animation():
    for form, kind in FORMATS.items():
        assert prepare(encoded(halves(), form), "a", kind).notes == ()


# ---------------------------------------------------------------- bombs and damage


def webp_claiming(width, height):
    body = b"VP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + (width - 1).to_bytes(3, "little")
    body += (height - 1).to_bytes(3, "little") + b"VP8L" + struct.pack("<I", 6) + b"\x2f" + bytes(5)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def tiff_claiming(width, height):
    tags = [(256, 4, width), (257, 4, height), (258, 3, 8), (259, 3, 1), (262, 3, 1), (273, 4, 8), (277, 3, 1)]
    tags += [(278, 4, height), (279, 4, 10)]
    entries = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags)
    return b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(tags)) + entries + bytes(40)


@pytest.mark.parametrize(
    "data",
    [
        png_header(19000, 19000) + chunk(b"IDAT", b"") + chunk(b"IEND", b""),
        png_header(225000, 225000),
        b"GIF89a" + struct.pack("<HH", 65535, 65535) + bytes(3),
        webp_claiming(16384, 16384),
        tiff_claiming(100000, 100000),
        b"BM" + struct.pack("<IHHIIiiHHIIiiII", 100, 0, 0, 54, 40, 30000, 30000, 1, 24, 0, 0, 0, 0, 0, 0),
    ],
    ids=["png", "png-225000", "gif", "webp", "tiff", "bmp"],
)
def test_case_92_a_bomb_is_refused_from_its_header(data):
    with pytest.raises(TooManyPixels) as refusal:
        prepare(data, "bomb\n.png", sniff(data))
    assert refusal.value.code == "too_large"
    assert refusal.value.details["width"] * refusal.value.details["height"] > DECODED_PIXELS
    assert str(refusal.value.details["width"]) in refusal.value.message
    assert refusal.value.message.isprintable()


def test_case_92_a_real_bomb_is_refused_in_bounded_memory():
    squeeze = zlib.compressobj(9)
    idat = b"".join(squeeze.compress(bytes(19001)) for _ in range(19000)) + squeeze.flush()
    bomb = png_header(19000, 19000, 8, 0) + chunk(b"IDAT", idat) + chunk(b"IEND", b"")
    program = (
        "import sys, re\n"
        "from workbench.workspace.views.images import prepare, sniff, TooManyPixels\n"
        "data = sys.stdin.buffer.read()\n"
        "try: prepare(data, 'a.png', sniff(data))\n"
        # The peak in KiB; getrusage's would begin with that of the process that started this one.
        "except TooManyPixels: print(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=bomb, capture_output=True, check=True, env={"PYTHONPATH": LAYER}
    )
    assert int(done.stdout) < 150 * 1024, done.stderr


def test_case_92_ten_thousand_frames_cost_no_more_than_two():
    frame = encoded(Image.new("P", (20, 20), 1), "GIF")
    start = frame.index(b"\x2c", 13)
    data = frame[:start] + frame[start:-1] * 10_000 + b";"
    # This thread's alone: others of the process may be at work.
    before = time.thread_time()
    picture = prepare(data, "a.gif", sniff(data))
    assert time.thread_time() - before < 1
    assert "animation" in picture.describe("a.gif")


def test_a_jpeg_of_endless_scans_is_refused_before_decoding():
    data = encoded(halves(), "JPEG", progressive=True)
    scan = data.index(b"\xff\xda")
    with pytest.raises(UnreadableImage, match="scans"):
        prepare(data[:scan] + data[scan:-2] * 200 + data[-2:], "a.jpg", JPEG)


@pytest.mark.parametrize("form", FORMATS)
def test_a_picture_cut_short_is_refused_in_words(form):
    data = encoded(Image.effect_noise((100, 100), 50).convert("RGB"), form)
    with pytest.raises(UnreadableImage) as refusal:
        prepare(data[: len(data) // 2], "a.png", FORMATS[form])
    assert refusal.value.code == "unreadable_image"
    assert FORMATS[form].name in refusal.value.message


@pytest.mark.parametrize("form", FORMATS)
def test_a_header_alone_is_refused_in_words(form):
    data = encoded(halves(), form)[:12]
    with pytest.raises(UnreadableImage):
        prepare(data, "a", FORMATS[form])


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(list(FORMATS)), st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=8))
def test_any_damage_is_a_picture_or_a_refusal(form, damage):
    data = bytearray(encoded(halves(), form))
    for where, value in damage:
        data[int(where * len(data))] = value
    try:
        picture = prepare(bytes(data), "a", FORMATS[form])
    except (UnreadableImage, TooManyPixels) as refusal:
        assert refusal.message.isprintable()
    else:
        assert max(picture.size) <= LONGER_SIDE_PIXELS


def test_the_size_is_told_without_decoding():
    undecodable = png_header(5000, 4000) + chunk(b"IDAT", b"no pixels") + chunk(b"IEND", b"")
    assert picture_size(undecodable, "a.png", PNG) == (5000, 4000)


def test_no_decoder_is_loaded_before_a_picture_is_looked_at():
    program = "import sys, workbench.workspace.views.images; print('PIL' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env={"PYTHONPATH": LAYER}, text=True
    )
    assert done.stdout.strip() == "False"
