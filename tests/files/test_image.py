"""Photos to network input: torchvision's rules, replayed here with Pillow and NumPy alone."""

from __future__ import annotations

import dataclasses
import importlib.util
import io
import os
import pathlib

import numpy as np
import pytest
from conftest import ROOT

import clcnn
from clcnn import image

Image = pytest.importorskip("PIL.Image")

RNG = np.random.default_rng(3)
DATA = pathlib.Path(os.environ.get("CLCNN_TEST_DATA", ROOT.parent / "shared" / "data"))


def photo(height, width):
    """A picture with gradients, edges and noise."""
    y, x = np.mgrid[:height, :width]
    base = np.stack(
        [x * 255 / width, y * 255 / height, 128 + 127 * np.sign(np.sin(x / 9) * np.cos(y / 7))], axis=2
    )
    return np.clip(base + RNG.normal(0, 12, base.shape), 0, 255).astype(np.uint8)


def encoded(pil, fmt="PNG", **options):
    stream = io.BytesIO()
    pil.save(stream, fmt, **options)
    return stream.getvalue()


def sample(name):
    """A photo of scikit-image's wheel, or skip."""
    spec = importlib.util.find_spec("skimage")
    if spec is None:
        pytest.skip("scikit-image is not installed")
    return pathlib.Path(spec.origin).parent / "data" / name


def expected_crop(name):
    path = DATA / "images" / f"{name}_224.png"
    if not path.exists():
        pytest.skip("the shared test data is not there")
    return np.asarray(Image.open(path)).astype(int)


def test_load_takes_paths_bytes_images_and_arrays(tmp_path):
    pixels = photo(20, 31)
    pil = Image.fromarray(pixels)
    pil.save(tmp_path / "a.png")
    for source in (
        tmp_path / "a.png",
        str(tmp_path / "a.png"),
        encoded(pil),
        bytearray(encoded(pil)),
        pil,
        pixels,
    ):
        np.testing.assert_array_equal(image.load(source), pixels, strict=True)
    assert image.load(pil).flags.writeable and image.load(tmp_path / "a.png").flags.c_contiguous
    with pytest.raises(TypeError, match="an image is a path, bytes, a PIL image or a uint8 array, not int"):
        image.load(3)
    with pytest.raises(FileNotFoundError):
        image.load(tmp_path / "none.png")


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(orientation):
    upright = photo(16, 24)
    undo = {
        1: lambda a: a,
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
        5: lambda a: a.swapaxes(0, 1),
        6: lambda a: np.rot90(a),
        7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
        8: lambda a: np.rot90(a, -1),
    }
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(Image.fromarray(np.ascontiguousarray(undo[orientation](upright))), exif=exif)
    np.testing.assert_array_equal(image.load(data), upright)
    np.testing.assert_array_equal(image.load(Image.open(io.BytesIO(data))), upright)


@pytest.mark.parametrize("mode", ["L", "P", "1", "RGBA", "LA", "CMYK", "YCbCr", "HSV"])
def test_modes_follow_convert_rgb(mode):
    pil = Image.fromarray(photo(12, 9)).convert(mode)
    np.testing.assert_array_equal(image.load(pil), np.asarray(pil.convert("RGB")))


def test_alpha_is_dropped():
    pixels = np.dstack([photo(6, 5), np.zeros((6, 5), np.uint8)])
    np.testing.assert_array_equal(image.load(encoded(Image.fromarray(pixels))), pixels[:, :, :3])
    np.testing.assert_array_equal(image.load(pixels), pixels[:, :, :3])


def test_sixteen_bit_greyscale_is_scaled():
    grey = np.linspace(0, 65535, 300).astype(np.uint16).reshape(15, 20)
    expected = np.repeat(np.rint(grey / 257).astype(np.uint8)[:, :, None], 3, axis=2)
    np.testing.assert_array_equal(image.load(encoded(Image.fromarray(grey))), expected)
    np.testing.assert_array_equal(image.load(Image.fromarray(grey.astype(np.int32))), expected)
    with pytest.raises(image.ImageError, match="values from 0 to 70000 are no 16-bit greyscale"):
        image.load(Image.fromarray(np.array([[0, 70000]], np.int32)))


def test_arrays_of_one_channel_are_repeated():
    grey = photo(5, 4)[:, :, 0]
    for array in (grey, grey[:, :, None]):
        np.testing.assert_array_equal(image.load(array), np.dstack([grey] * 3))


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((4, 4, 3), np.float32),
        np.zeros((4, 4, 2), np.uint8),
        np.zeros((0, 4, 3), np.uint8),
        np.zeros(4, np.uint8),
    ],
)
def test_arrays_that_are_no_images(array):
    with pytest.raises(image.ImageError, match="an image array is uint8"):
        image.load(array)


def test_files_that_are_no_images(tmp_path):
    path = tmp_path / "cat.jpg"
    whole = encoded(Image.fromarray(photo(40, 40)), "JPEG")
    for content in (
        b"",
        b"hello",
        b"\x89PNG\r\n\x1a\n",
        b"BM" + bytes(60),
        whole[:-300],
        encoded(Image.new("L", (9, 9)))[:45],
    ):
        path.write_bytes(content)
        with pytest.raises(image.ImageError, match=r"cat\.jpg: not a readable image: "):
            image.load(path)


def test_decompression_bomb_limit_is_respected(monkeypatch):
    data = encoded(Image.new("L", (100, 100)))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 4000)
    with pytest.raises(image.ImageError, match="(?i)not a readable image: .*exceeds limit of 8000 pixels"):
        image.load(data)


SIZES = [
    ((300, 451), 256, (256, 384)),
    ((451, 300), 256, (384, 256)),
    ((427, 640), 256, (256, 383)),
    ((256, 256), 256, (256, 256)),
    ((256, 300), 256, (256, 300)),
    ((10, 33), 7, (7, 23)),
    ((50, 40), (20, 60), (20, 60)),
    ((30, 20), [10], (15, 10)),
]


@pytest.mark.parametrize(("old", "size", "new"), SIZES)
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "nearest"])
def test_resize_is_pillow_at_torchvisions_size(old, size, new, interpolation):
    pixels = photo(*old)
    expected = Image.fromarray(pixels).resize(new[::-1], getattr(Image.Resampling, interpolation.upper()))
    np.testing.assert_array_equal(
        image.resize(pixels, size, interpolation), np.asarray(expected), strict=True
    )


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("new", [(37, 53), (90, 71), (20, 80), (8, 5)])
def test_resize_without_antialias_is_torchs(interpolation, new):
    torch = pytest.importorskip("torch")
    pixels = photo(60, 64)
    batch = torch.from_numpy(pixels.astype(np.float64).transpose(2, 0, 1)[None].copy())
    resized = torch.nn.functional.interpolate(batch, new, mode=interpolation, align_corners=False)
    expected = resized.clamp(0, 255).round()[0].numpy().transpose(1, 2, 0)
    ours = image.resize(pixels, new, interpolation, antialias=False)
    assert ours.dtype == np.uint8 and np.abs(ours - expected).max() <= 1  # a tie may round either way
    assert np.mean(ours != expected) < 0.01


@pytest.mark.parametrize(
    ("interpolation", "contrast", "dtype", "levels"),
    [
        ("bilinear", 1, "uint8", 1),
        ("bicubic", 1, "uint8", 2),
        ("bilinear", 1, "float32", 1),
        ("bicubic", 0.5, "float32", 1),
    ],
)
def test_distance_from_tensor_transforms(interpolation, contrast, dtype, levels):
    """The stated bounds; with half the contrast, bicubic overshoots nowhere."""
    torch = pytest.importorskip("torch")
    pixels = (photo(300, 451) * contrast + 255 * (1 - contrast) / 2).astype(np.uint8)
    batch = torch.from_numpy(pixels.transpose(2, 0, 1)[None].copy()).to(getattr(torch, dtype))
    resized = torch.nn.functional.interpolate(batch, (256, 384), mode=interpolation, antialias=True)
    expected = resized.to(torch.float32).clamp(0, 255).round()[0].numpy().transpose(1, 2, 0)
    assert np.abs(image.resize(pixels, 256, interpolation) - expected).max() <= levels


def test_resize_without_antialias_by_hand():
    row = np.array([[0, 100, 200, 40]], np.uint8)[:, :, None].repeat(3, 2)
    shrunk = image.resize(row, (1, 2), antialias=False)
    np.testing.assert_array_equal(shrunk[0, :, 0], [50, 120])
    grown = image.resize(row, (1, 8), antialias=False)
    np.testing.assert_array_equal(grown[0, :, 0], [0, 25, 75, 125, 175, 160, 80, 40])
    nearest = image.resize(row, (1, 2), "nearest", antialias=False)
    np.testing.assert_array_equal(nearest[0, :, 0], [100, 40])


def test_resize_arguments():
    pixels = photo(8, 8)
    with pytest.raises(ValueError, match='interpolation is "bilinear", "bicubic" or "nearest", not \'area\''):
        image.resize(pixels, 4, "area")
    for size in (0, -3, (4, 0), (1, 2, 3), (), (2.5, 3)):
        with pytest.raises(ValueError, match="a size is a positive int or"):
            image.resize(pixels, size)
    with pytest.raises(image.ImageError, match="100000x1 would become 25600000x256, over"):
        image.resize(np.zeros((1, 100_000, 3), np.uint8), 256)
    with pytest.raises(image.ImageError, match="a crop of 100000x100000 is over"):
        image.center_crop(pixels, 100_000)


@pytest.mark.parametrize(
    ("shape", "size", "box"),
    [
        ((256, 385), 224, (16, 80)),  # 80.5 rounds to even
        ((256, 383), 224, (16, 80)),  # 79.5 too
        ((9, 7), (4, 7), (2, 0)),
        ((5, 5), 5, (0, 0)),
    ],
)
def test_center_crop_rounds_as_torchvision(shape, size, box):
    pixels = photo(*shape)
    height, width = (size, size) if isinstance(size, int) else size
    top, left = box
    np.testing.assert_array_equal(
        image.center_crop(pixels, size), pixels[top : top + height, left : left + width]
    )


def test_center_crop_pads_small_images():
    pixels = photo(3, 9) | 1
    cropped = image.center_crop(pixels, 6)
    assert cropped.shape == (6, 6, 3)
    np.testing.assert_array_equal(
        cropped[1:4], pixels[:, 2:8]
    )  # 1 row above, 2 below; (9 - 6) / 2 = 1.5 -> 2
    assert not cropped[0].any() and not cropped[4:].any()
    np.testing.assert_array_equal(image.center_crop(pixels[..., 0], 6), cropped[..., 0])


def test_to_tensor_and_normalize_are_float32_operations():
    pixels = photo(6, 5)
    tensor = image.to_tensor(pixels)
    np.testing.assert_array_equal(
        tensor, pixels.transpose(2, 0, 1).astype(np.float32) / np.float32(255), strict=True
    )
    ours = image.normalize(tensor)
    exact = (pixels.transpose(2, 0, 1) / 255 - np.reshape(image.IMAGENET_MEAN, (3, 1, 1))) / np.reshape(
        image.IMAGENET_STD, (3, 1, 1)
    )
    assert ours.dtype == np.float32 and np.abs(ours - exact).max() < 1e-6
    for mean, std in (((0.5,), (0.5,)), ((0, 0, 0), (1, 1)), ((0, 0, 0), (1, 0, 1))):
        with pytest.raises(ValueError, match="a mean and a non-zero std for each channel"):
            image.normalize(tensor, mean, std)
    torch = pytest.importorskip("torch")
    reference = torch.from_numpy(pixels.transpose(2, 0, 1).copy()).to(torch.float32).div(255)
    mean, std = (torch.tensor(v).view(-1, 1, 1) for v in (image.IMAGENET_MEAN, image.IMAGENET_STD))
    np.testing.assert_array_equal(ours, reference.sub(mean).div(std).numpy(), strict=True)


def test_preprocess_is_the_chain(tmp_path):
    first, second = photo(300, 451), photo(280, 260)
    Image.fromarray(second).save(tmp_path / "b.png")
    batch = image.preprocess(
        [first, tmp_path / "b.png"],
        size=(96, 128),
        resize=150,
        interpolation="bicubic",
        mean=(0.5, 0.4, 0.3),
        std=(0.2, 0.3, 0.4),
    )
    assert batch.shape == (2, 3, 96, 128) and batch.dtype == np.float32 and batch.flags.c_contiguous
    for ours, pixels, new in ((batch[0], first, (225, 150)), (batch[1], second, (150, 161))):
        pil = Image.fromarray(pixels).resize(new, Image.Resampling.BICUBIC)
        left, top = round((new[0] - 128) / 2), round((new[1] - 96) / 2)
        crop = np.asarray(pil.crop((left, top, left + 128, top + 96))).transpose(2, 0, 1).astype(np.float32)
        mean, std = (np.array(v, np.float32).reshape(3, 1, 1) for v in ((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)))
        np.testing.assert_array_equal(ours, (crop / np.float32(255) - mean) / std)


def test_preprocess_takes_one_many_and_batches():
    pixels = photo(40, 50)
    one = image.preprocess(pixels, 32, 36)
    assert one.shape == (1, 3, 32, 32)
    stacked = np.stack([pixels, pixels[::-1]])
    for many in (stacked, list(stacked), iter(stacked), tuple(stacked)):
        batch = image.preprocess(many, 32, 36)
        assert batch.shape == (2, 3, 32, 32)
        np.testing.assert_array_equal(batch[0], one[0])
    for single in (Image.fromarray(pixels), encoded(Image.fromarray(pixels))):
        np.testing.assert_array_equal(image.preprocess(single, 32, 36), one)
    plain = image.preprocess(pixels, 40, None, normalize=False)
    np.testing.assert_array_equal(plain[0], image.to_tensor(pixels[:, 5:45]))
    with pytest.raises(ValueError, match="no image was given"):
        image.preprocess([])


def test_preprocess_names_the_file(tmp_path):
    Image.new("RGB", (100_000, 1)).save(tmp_path / "thin.png")
    with pytest.raises(image.ImageError, match=r"thin\.png: 100000x1 would become 25600000x256"):
        image.preprocess(tmp_path / "thin.png")


def test_preset_is_preprocess_with_its_arguments():
    pixels = photo(90, 120)
    preset = image.Preset(80, 64, "bicubic", (0.5,) * 3, (0.25,) * 3)
    expected = image.preprocess([pixels], 64, 80, "bicubic", (0.5,) * 3, (0.25,) * 3)
    np.testing.assert_array_equal(preset.apply([pixels]), expected)
    np.testing.assert_array_equal(image.Preset().apply(pixels), image.preprocess(pixels))
    assert preset == image.Preset(80, 64, "bicubic", (0.5,) * 3, (0.25,) * 3) and hash(preset)
    with pytest.raises(AttributeError):
        preset.crop = 3


def test_efficientnet_lite_preset_has_the_scale_of_its_reference_inputs():
    """The stored inputs are the stored crops, scaled: without resampling, the preset must give them."""
    path = DATA / "models" / "efficientnet_lite0" / "in0.npz"
    pixels = expected_crop("chelsea").astype(np.uint8)
    with np.load(path) as archive:
        [stored] = archive.values()
    preset = dataclasses.replace(image.PRESETS["efficientnet_lite"], resize=None)
    np.testing.assert_allclose(preset.apply(pixels), stored, rtol=0, atol=1e-6)
    assert image.PRESETS["imagenet"] == image.Preset(
        256, 224, "bilinear", image.IMAGENET_MEAN, image.IMAGENET_STD
    )


def test_grey_presets_are_pillows_luma():
    pixels = photo(40, 56)
    luma = np.asarray(Image.fromarray(pixels).convert("L"))
    np.testing.assert_array_equal(image.to_grey(pixels), luma[:, :, None], strict=True)
    digits = image.PRESETS["digits"].apply([pixels, pixels])
    crop = image.to_grey(image.center_crop(image.resize(pixels, 28), 28))[:, :, 0].astype(np.float32)
    assert digits.shape == (2, 1, 28, 28) and digits.dtype == np.float32
    np.testing.assert_allclose(digits[1, 0], (crop / 255 - 0.1307) / 0.3081, rtol=0, atol=1e-6)


def test_error_is_clcnns():
    assert image.ImageError.__mro__[1:3] == (clcnn.Error, ValueError)


def convolve(x, weight, bias, stride=1):
    """A float64 convolution without padding."""
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], axis=(2, 3))[
        :, :, ::stride, ::stride
    ]
    return np.einsum("nchwrs,kcrs->nkhw", windows, weight) + bias[None, :, None, None]


@pytest.mark.parametrize(("scale", "stride"), [(1 / 255, 1), (1.0, 2)])
def test_folded_normalization_is_exact_in_float64(scale, stride):
    weight, bias = RNG.standard_normal((4, 3, 3, 5)), RNG.standard_normal(4)
    mean, std = np.array(image.IMAGENET_MEAN), np.array(image.IMAGENET_STD)
    x = RNG.integers(0, 256, (2, 3, 9, 11)) * (1 / 255 / scale)
    y = (x * scale - mean.reshape(3, 1, 1)) / std.reshape(3, 1, 1)
    folded = image.fold_normalization(weight, bias, mean, std, scale)
    np.testing.assert_allclose(
        convolve(x, folded.weight, folded.bias, stride),
        convolve(y, weight, bias, stride),
        rtol=1e-12,
        atol=1e-12,
    )
    np.testing.assert_allclose(folded.pad_value, mean / scale, rtol=1e-15)

    zeros = convolve(np.pad(y, ((0, 0), (0, 0), (1, 2), (3, 1))), weight, bias, stride)
    padded = image.pad_channels(x, (1, 3, 2, 1), folded.pad_value)
    np.testing.assert_allclose(
        convolve(padded, folded.weight, folded.bias, stride), zeros, rtol=1e-12, atol=1e-12
    )
    wrong = convolve(np.pad(x, ((0, 0), (0, 0), (1, 2), (3, 1))), folded.weight, folded.bias, stride)
    assert np.abs(wrong - zeros)[:, :, 0].max() > 0.1, "zeros would change the border"


def test_fold_keeps_dtype_and_checks_channels():
    weight = RNG.standard_normal((4, 3, 1, 1)).astype(np.float32)
    folded = image.fold_normalization(weight, None)
    assert [a.dtype for a in folded] == [np.float32] * 3 and folded.bias.shape == (4,)
    np.testing.assert_allclose(
        folded.bias, -(weight[:, :, 0, 0] / image.IMAGENET_STD) @ image.IMAGENET_MEAN, rtol=1e-5
    )
    for mean, std in (((0,), (1,)), ((0, 0, 0), (1, 0, 1))):
        with pytest.raises(ValueError, match="a mean and a non-zero std for each of its input channels"):
            image.fold_normalization(weight, None, mean, std)
    with pytest.raises(ValueError, match=r"needs a bias of 4, not of \(3,\)"):
        image.fold_normalization(weight, np.zeros(3, np.float32))


def test_pad_channels():
    x = np.arange(12, dtype=np.uint8).reshape(1, 2, 2, 3)
    padded = image.pad_channels(x, 1, np.array([0.5, 7], np.float32))
    assert padded.shape == (1, 2, 4, 5) and padded.dtype == np.float32
    np.testing.assert_array_equal(padded[:, :, 1:3, 1:4], x)
    assert (padded[0, 0, 0] == 0.5).all() and (padded[0, 1, :, -1] == 7).all()
    assert image.pad_channels(x, (0, 2), [1, 2]).shape == (1, 2, 2, 7)
    for padding, value in ((-1, [1, 2]), (1, [1]), ((1, 2, 3), [1, 2])):
        with pytest.raises(ValueError, match="does not fit"):
            image.pad_channels(x, padding, value)


@pytest.mark.parametrize(
    ("name", "file", "size", "differing"),
    [
        ("chelsea", "chelsea.png", (256, 385), 1e-3),
        ("coffee", "coffee.png", (256, 384), 0.02),
    ],
)
def test_crops_made_by_scikit_image(name, file, size, differing):
    """The stored crops are scikit-image's: the longer side rounded, and bilinear after a Gaussian.

    That is nearly an impulse at these scales, which leaves our path without antialiasing, to a grey level.
    """
    crop = image.center_crop(image.resize(image.load(sample(file)), size, antialias=False), 224)
    error = np.abs(crop - expected_crop(name))
    assert error.max() <= 1 and error.mean() < differing


@pytest.mark.parametrize(
    ("name", "file", "bound"),
    [
        ("coffee", "coffee.png", 1.5),
        ("astronaut", "astronaut.png", 1.5),
        ("rocket", "rocket.jpg", 2.5),
        ("chelsea", "chelsea.png", 4.5),
    ],
)
def test_default_pipeline_is_near_the_stored_crops(name, file, bound):
    """Filters differ, and for two of them the longer side by a pixel; the mean shows that they align."""
    tensor = image.preprocess(sample(file), normalize=False)[0]
    assert np.abs(tensor.transpose(1, 2, 0) * 255 - expected_crop(name)).mean() < bound
