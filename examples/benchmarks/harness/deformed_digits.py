"""Many deformed copies of the 8-vs-6 images, as 50 principal components in one float32 file.

Each copy of an image is shifted by up to 2 pixels, rotated by up to 12 degrees and deformed
elastically (a smooth random displacement field, about 1 pixel in size), all in one bilinear
interpolation. The fields come from a bank of 2,000 that is made once, two of them added with
random weights for every image.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates

from .datasets import load_mnist_images, principal_axes

SIDE = 28
MARGIN = 4  # empty rows between stacked images, so that no image bleeds into the next
BLOCK = 2048  # images deformed at a time
FIELDS = 2000


@dataclass(frozen=True)
class DeformedDigits:
    """File of features, labels of its rows, and the standardised test images."""

    path: Path
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def features(self):
        """Return the features as a read-only memory map (rows, 50), float32."""
        return np.load(self.path, mmap_mode="r")


def displacement_fields(rng, count=FIELDS, smoothness=4.0):
    """Return smooth random fields (count, 28, 28), float32, of root mean square 1 pixel."""
    noise = rng.standard_normal((count, SIDE, SIDE))
    fields = gaussian_filter(noise, sigma=(0.0, smoothness, smoothness), mode="reflect")
    fields /= np.sqrt(np.mean(fields**2))
    return fields.astype(np.float32)


def deform(images, fields, rng):
    """Return a randomly deformed copy of images (n, 28, 28), values 0 to 1."""
    n = len(images)
    angle = np.deg2rad(rng.uniform(-12.0, 12.0, (n, 1, 1))).astype(np.float32)
    shift = rng.uniform(-2.0, 2.0, (2, n, 1, 1)).astype(np.float32)
    weights = rng.normal(0.0, 0.7, (2, 2, n, 1, 1)).astype(np.float32)
    chosen = rng.integers(len(fields), size=(2, 2, n))
    centre = (SIDE - 1) / 2.0
    row, column = np.mgrid[:SIDE, :SIDE].astype(np.float32) - np.float32(centre)
    cosine, sine = np.cos(angle), np.sin(angle)
    coordinates = np.empty((2, n, SIDE, SIDE), dtype=np.float32)
    coordinates[0] = cosine * row - sine * column
    coordinates[1] = sine * row + cosine * column
    for axis in range(2):
        coordinates[axis] += centre + shift[axis]
        for k in range(2):
            coordinates[axis] += weights[axis, k] * fields[chosen[axis, k]]
    # All images one below the other: a single two-dimensional interpolation for the block.
    tall = np.zeros((n, SIDE + 2 * MARGIN, SIDE), dtype=np.float32)
    tall[:, MARGIN:-MARGIN] = images
    np.clip(coordinates[0], -MARGIN + 1, SIDE + MARGIN - 2, out=coordinates[0])
    heights = np.arange(n) * (SIDE + 2 * MARGIN) + MARGIN
    rows = coordinates[0] + heights[:, None, None]
    return map_coordinates(
        tall.reshape(-1, SIDE), [rows, coordinates[1]], order=1, mode="constant", output=np.float32
    )


def deformed_digits(data_dir, folder, n_rows, *, seed=0, progress=print):
    """Return the data set, made in ``folder`` if it is not there yet.

    The principal axes are those of the 11,769 original training images; mean and sd of each
    component are taken over the deformed rows (first pass: write the components and add up their
    moments; second pass: standardise in place). Test images are not deformed, and are projected
    and standardised with the same numbers. The rows run through the originals in a new random
    order again and again, so every original has the same number of copies, give or take one.
    """
    images, labels, test_images, y_test = load_mnist_images(data_dir)
    mean, axes = principal_axes(images)
    folder = _ignored(folder)
    path = folder / f"deformed_{n_rows}.npy"
    sources = _sources(len(images), n_rows, np.random.default_rng(seed))
    note = path.with_suffix(".json")  # written last, so an interrupted run is made anew
    if not note.exists():
        progress(f"Deforming {n_rows:,} images ...")
        moments = _write(path, images, mean, axes, sources, seed)
        note.write_text(json.dumps([part.tolist() for part in moments]), encoding="utf-8")
    centre, scale = (np.array(part) for part in json.loads(note.read_text(encoding="utf-8")))
    X_test = (((test_images - mean) @ axes) - centre) / scale
    return DeformedDigits(path, labels[sources].astype(np.int8), X_test, y_test)


def _ignored(folder):
    """Make a folder that git ignores wherever it lies."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    return folder


def _sources(n_images, n_rows, rng):
    """Index of the original of each row."""
    passes = -(-n_rows // n_images)
    return np.concatenate([rng.permutation(n_images) for _ in range(passes)])[:n_rows]


def _write(path, images, mean, axes, sources, seed):
    """Write the standardised components; return their mean and sd before."""
    rng = np.random.default_rng([seed, 1])
    fields = displacement_fields(rng)
    pixels = images.astype(np.float32).reshape(-1, SIDE, SIDE)
    offset, axes = (mean @ axes), axes.astype(np.float32)
    n_rows = len(sources)
    out = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, axes.shape[1]))
    total, squares = np.zeros(axes.shape[1]), np.zeros(axes.shape[1])
    for start in range(0, n_rows, BLOCK):
        block = sources[start : start + BLOCK]
        flat = deform(pixels[block], fields, rng).reshape(len(block), -1)
        scores = (flat @ axes).astype(np.float64) - offset
        total += scores.sum(axis=0)
        squares += (scores**2).sum(axis=0)
        out[start : start + len(block)] = scores
    centre = total / n_rows
    scale = np.sqrt(squares / n_rows - centre**2)
    for start in range(0, n_rows, 65536):
        out[start : start + 65536] = (out[start : start + 65536] - centre) / scale
    out.flush()
    return centre, scale
