"""What holds for every test; what only some need is in the conftest of their folder."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# The check must give the same answer twice, so examples are not drawn anew each time; to look for new failures:
# pytest --hypothesis-profile=explore. No deadline: a busy machine is no defect, and pytest-timeout catches a hang.
settings.register_profile("roost", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", settings.get_profile("roost"), derandomize=False, max_examples=5_000)
settings.load_profile("roost")


@pytest.fixture(scope="session", autouse=True)
def _no_peer_of_the_developer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A test that forgets --home must not find, or make, the data directory of whoever runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROOST_HOME", str(tmp_path_factory.mktemp("nobody") / "home"))
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))  # where peers of a machine meet
        yield


@pytest.fixture(scope="session")
def project_files() -> list[Path]:
    """The files of the project, relative to its root: what git tracks or would track."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode != 0:
        pytest.skip("needs the git checkout: " + listing.stderr.decode().strip())
    named = (Path(name.decode()) for name in listing.stdout.split(b"\0") if name)
    return sorted(path for path in named if (ROOT / path).is_file())
