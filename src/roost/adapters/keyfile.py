"""The peer's key on disk: 32 bytes of seed, readable by its owner alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from roost.adapters.environment import Environment
from roost.core.errors import KeyUnsafe, RoostError
from roost.core.keys import SEED_BYTES, SigningKey

KEY_NAME = "key"  # in the data directory


def load_or_create(home: Path, environment: Environment) -> SigningKey:
    """The key of a data directory, made on first use. Raises KeyUnsafe if others could read it."""
    path = home / KEY_NAME
    try:
        return _load(path)
    except FileNotFoundError:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        home.chmod(0o700)  # it may have been there, made by hand
        _create(path, environment.random(SEED_BYTES))
        return _load(path)


def _load(path: Path) -> SigningKey:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise KeyUnsafe(str(path))
        if stat.S_IMODE(path.parent.stat().st_mode) & 0o077:
            raise KeyUnsafe(str(path.parent))
        seed = os.read(descriptor, SEED_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(seed) != SEED_BYTES:
        raise RoostError(f"the key file {path} is damaged: restore it from a backup")
    return SigningKey.from_seed(seed)


def _create(path: Path, seed: bytes) -> None:
    """Write the seed under another name first: a key is there whole or not at all, and none is ever replaced."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, seed)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(new, path)
    except FileExistsError:
        pass  # another process was first: its key is the key
    finally:
        new.unlink()
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
