"""Looks into the wheel and the sdist: what has to be there is, and nothing else.

Usage: python tests/packages.py FOLDER
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"


def main(dist: Path) -> None:
    """Compare names with the sources."""
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    sources = {
        str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*") if path.suffix in (".py", ".typed")
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        if not any(name.endswith("/licenses/LICENSE") for name in archive.namelist()):
            sys.exit("the wheel lacks its license")
    compare("wheel", packed, sources)
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    extra = {"README.md", "pyproject.toml", "PKG-INFO", "LICENSE", ".gitignore"}
    compare("sdist", names - extra, {f"src/{name}" for name in sources})
    print(f"{wheel.name}: {len(packed)} files, {wheel.stat().st_size} bytes; {sdist.name}")


def compare(what: str, have: set[str], want: set[str]) -> None:
    """End with what differs."""
    if have != want:
        sys.exit(f"the {what} lacks {sorted(want - have)} and has {sorted(have - want)} too much")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
