"""Scripts that stand in for a command which needs a little preparation, kept in the cache folder."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from functools import cache
from pathlib import Path

log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Where files go that can be made again: APOGEE_CACHE, else the user's cache folder, else a temporary one."""
    if given := os.environ.get("APOGEE_CACHE"):
        return Path(given)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "apogeemq"
    except RuntimeError:  # a user without a home
        return _temporary_cache()


@cache
def _temporary_cache() -> Path:
    return Path(tempfile.mkdtemp(prefix="apogeemq-cache-"))


def folder_with_script(kept_in: Path, place: str, script: str) -> Path:
    """A folder with this script at `bin/java`, or whatever place is named; the same for the same script."""
    name = hashlib.sha256(script.encode()).hexdigest()[:16]
    command = Path(place).name
    try:
        return _written(kept_in / command / name, place, script)
    except OSError as error:  # a home that cannot be written to, as in many containers
        log.info("%s; a temporary folder is used", error)
        return _written(Path(tempfile.mkdtemp(prefix=f"apogeemq-{command}-")), place, script)


def _written(folder: Path, place: str, script: str) -> Path:
    path = folder / place
    if path.is_file() and path.read_text() == script and os.access(path, os.X_OK):
        return folder
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(script)
    os.chmod(temporary, 0o755)
    os.replace(temporary, path)  # whoever starts at the same moment finds the old one or this one, whole
    return folder
