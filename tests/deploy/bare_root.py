"""A folder as the root of processes, with an image in it: what a container is, where there is no engine."""

import os
import re
import subprocess
import sys
from email.parser import BytesParser
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement

SYSTEM = [path for path in map(Path, ("/usr", "/bin", "/lib", "/lib64")) if path.exists()]
DEVICES = ("null", "urandom")


class BareRoot:
    """A folder that becomes the root of commands, with this machine's programs in it, read-only.

    Args:
        folder: It becomes the root.
        volumes: Folders of the root that stay writable.
        places: Further folders of this machine, read-only at the same place.
    """

    def __init__(self, folder, volumes, places=()):
        self.folder = folder
        self._volumes = volumes
        self._places = [path for path in (*SYSTEM, *places) if not path.is_symlink()]
        for path in self._places:
            (folder / path.relative_to("/")).mkdir(parents=True, exist_ok=True)
        for path in (path for path in SYSTEM if path.is_symlink()):
            (folder / path.relative_to("/")).symlink_to(os.readlink(path))
        for name in ("proc", "etc", "dev", "dist", "tmp"):
            (folder / name).mkdir(exist_ok=True)
        for name in DEVICES:
            (folder / "dev" / name).touch()

    def command(self, words, *, environment, user="0:0", folder="/", is_read_only=True):
        """Return the command that runs another one inside, as process 1 of its own namespace."""
        root = self.folder
        lines = ["set -e", "mount --make-rprivate /", f"mount --bind {root} {root}"]
        for path in self._places:
            lines += [f"mount --bind {path} {root}{path}", f"mount -o remount,bind,ro {root}{path}"]
        lines += [f"mount --bind /dev/{name} {root}/dev/{name}" for name in DEVICES]
        lines.append(f"mount -t proc proc {root}/proc")
        if is_read_only:
            lines += [f"mount --bind {root}{volume} {root}{volume}" for volume in self._volumes]
            lines.append(f"mount -o remount,bind,ro {root}")
        uid, gid = user.split(":")
        limits = (
            ["--clear-groups", "--no-new-privs", "--bounding-set=-all"] if uid != "0" else ["--clear-groups"]
        )
        variables = [f"{name}={value}" for name, value in environment.items()]
        change = ["setpriv", f"--reuid={uid}", f"--regid={gid}", *limits]
        enter = ["chroot", str(root), *change, "env", "-i", f"--chdir={folder}", *variables]
        lines.append('exec "$@"')
        script = "\n".join(lines)
        return [
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            script,
            "sh",
            *enter,
            *words,
        ]

    def run(self, words, **options):
        """Run a command inside; return what it printed."""
        outcome = subprocess.run(self.command(words, **options), capture_output=True, text=True)
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
        return outcome.stdout


def link_distributions(wheel, extras, target):
    """Link what a wheel needs with these extras into a folder, from the packages of these tests."""
    with ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        waiting = [(BytesParser().parsebytes(archive.read(name)).get_all("Requires-Dist"), extras)]
    done = set()
    while waiting:
        requirements, wanted = waiting.pop()
        for requirement in map(Requirement, requirements or ()):
            if not any(_applies(requirement, extra) for extra in (*wanted, "")):
                continue
            key = (re.sub(r"[-_.]+", "-", requirement.name).lower(), frozenset(requirement.extras))
            if key not in done:
                done.add(key)
                found = distribution(requirement.name)
                _link(found, target)
                waiting.append((found.requires, tuple(requirement.extras)))


def _applies(requirement, extra):
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _link(found, target):
    for top in {file.parts[0] for file in found.files} - {"..", "__pycache__"}:
        link = target / top
        if not link.is_symlink():
            link.symlink_to(Path(found.locate_file(top)).resolve())


def site_packages():
    """The folder of the packages of these tests."""
    return Path(distribution("packaging").locate_file("")).resolve()


def base_python():
    """The folder of the interpreter itself."""
    return Path(sys.base_prefix).resolve()
