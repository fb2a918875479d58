"""Uses the package as it was installed: runs the first example of the README against the stage.

Usage, in an environment that has the package and nothing of this tree: python tests/installed.py
"""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent
sys.path.append(str(TESTS))

from readme import first_example, run  # noqa: E402
from stage import standing  # noqa: E402

import plimsoll  # noqa: E402


def main() -> None:
    """Check where the package comes from, and use it."""
    where = Path(plimsoll.__file__).resolve()
    if TESTS.parent in where.parents:
        sys.exit(f"{where} is the tree's, and not what was installed")
    if importlib.metadata.version("plimsoll") != plimsoll.__version__:
        sys.exit("the version that is installed is not the one that the package says")
    if not (where.parent / "py.typed").exists():
        sys.exit("py.typed was not installed: its types would not be seen")
    with standing() as stage:
        booted, parked = run(first_example(), stage)
    if not booted or parked:
        sys.exit(f"the first example booted {booted} and parked {parked}")
    print(f"plimsoll {plimsoll.__version__}: installed, imported, and its first example booted")


if __name__ == "__main__":
    main()
