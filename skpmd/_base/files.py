"""Files of skpmd: a zip archive of arrays (NumPy's format) and a JSON document that refers to them.

A file is whole or not there: it is written beside its place, brought to the disk, and then takes
the place of the one before. Nothing in it is run when it is read. What is torn, foreign, or of a
newer version is refused by an error that names the file and what to do.
"""

import json
import os
import zipfile
from contextlib import contextmanager
from time import time

import numpy as np

from skpmd._base.version import __version__

_FORMAT, _VERSION = "skpmd", 1
_DOCUMENT = "skpmd.json"
_SCHEMA = "schema.json"  # The document of skops.
_MAGIC = b"PK"  # What a zip archive begins with.
_ABANDONED = 600.0  # Seconds after which a file beside the place is what a dead process left.


class FileError(ValueError):
    """A file is not one that can be read."""


class CallableError(TypeError):
    """The functions that a reader gives are not those that a file needs."""


def place_of(path):
    """Where a path leads, a str; IsADirectoryError where that is a folder."""
    path = os.path.realpath(os.fspath(path))
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a folder: give the path of a file in it.")
    return path


@contextmanager
def replaced(path):
    """Context with a file to write, which takes the place of what is there where all goes well."""
    folder, name = os.path.split(path)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"There is no folder {folder}: make it, or give another path.")
    beside = os.path.join(folder, f".{name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        with open(beside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        if os.path.exists(beside):
            os.unlink(beside)
        raise
    _sync_folder(folder)


def write(path, kind, node, arrays):
    """Write a node and its arrays as a file of a kind, in the place of what is there."""
    document = {"format": _FORMAT, "version": _VERSION, "skpmd": __version__, "kind": kind}
    with replaced(path) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr(_DOCUMENT, json.dumps({**document, "content": node}))
        for place, array in enumerate(arrays):
            with archive.open(f"{place}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def is_of_skops(path):
    """Whether a file is an archive of skops, as far as it can be read."""
    return zipfile.is_zipfile(path) and _SCHEMA in zipfile.ZipFile(path).namelist()


def _sync_folder(folder):
    if not hasattr(os, "O_DIRECTORY"):  # Where folders cannot be opened.
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_abandoned(path):
    """Remove what processes that were killed in mid-write have left beside a path."""
    folder, name = os.path.split(path)
    for one in os.listdir(folder):
        if one.startswith(f".{name}.") and one.endswith(".tmp"):
            place = os.path.join(folder, one)
            if os.path.exists(place) and time() - os.path.getmtime(place) > _ABANDONED:
                os.unlink(place)


def read(path, kind, decode):
    """``decode(node, array)`` of a file of a kind, where ``array(place)`` reads an array."""
    with open(path, "rb") as file:
        if file.read(2) != _MAGIC:
            empty = " (it is empty)" if os.path.getsize(path) == 0 else ""
            remedy = "" if kind == "estimator" else ", or delete it"
            raise FileError(
                f"{path} is not a file of skpmd{empty}: give the path of one that skpmd has "
                f"written{remedy}."
            )
        try:
            archive = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise torn(path, error) from error
        with archive:
            document = _document(path, archive)
            _check_kind(path, document, kind)
            try:
                return decode(document["content"], lambda place: _array(archive, place))
            except (FileError, CallableError, MemoryError, Warning):
                raise
            except Exception as error:
                raise torn(path, error) from error


def _document(path, archive):
    if _DOCUMENT not in archive.namelist():
        raise FileError(f"{path} is an archive of something else than skpmd: give another path.")
    try:
        document = json.loads(archive.read(_DOCUMENT))
        version = document["version"]
        is_ours = document["format"] == _FORMAT and isinstance(version, int)
    except Exception as error:
        raise torn(path, error) from error
    if not is_ours:
        raise FileError(f"{path} is an archive of something else than skpmd: give another path.")
    if version > _VERSION:
        raise FileError(
            f"{path} was written by skpmd {document.get('skpmd')} in version {version} of the "
            f"format, and skpmd {__version__} reads up to version {_VERSION}: update skpmd."
        )
    return document


def _check_kind(path, document, kind):
    if document.get("kind") == kind:
        return
    if document.get("kind") == "checkpoint":
        raise FileError(
            f"{path} is the checkpoint of a fit that has not ended: call fit with "
            "checkpoint=this path and the same data and parameters to go on from it."
        )
    raise FileError(f"{path} holds a fitted estimator, and no checkpoint: give another path.")


def _array(archive, place):
    with archive.open(f"{place}.npy") as member:
        array = np.lib.format.read_array(member, allow_pickle=False)
        if member.read(1):  # Reads to the end, where the sum of the bytes is checked.
            raise ValueError("an array has more bytes than it says")
    return array


def torn(path, error):
    return FileError(
        f"{path} is torn or damaged ({type(error).__name__}: {error}): copy it anew from where it "
        "was written, or delete it."
    )
