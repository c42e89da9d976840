"""The image that the tests run, made of Debian's busybox, and an engine that is there for the tests alone.

`python -m tests.sandboxes.containers.image` makes the image for podman.
"""

import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

IMAGE = "localhost/agentrail-tests"
BUSYBOX = Path("/bin/busybox")
PASSWD = b"root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/home/agent:/bin/sh\n"


def root() -> bytes:
    """Return the root folder of the image as a tar file: one program with many names."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for folder in ("bin", "etc", "tmp", "proc", "sys", "dev", "usr"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        tar.add(BUSYBOX.resolve(), "bin/busybox")
        names = subprocess.run([BUSYBOX, "--list"], capture_output=True, check=True, text=True).stdout.split()  # noqa: S603 - of the machine
        for name in {*names} - {"busybox"}:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        entry = tarfile.TarInfo("etc/passwd")
        entry.size = len(PASSWD)
        tar.addfile(entry, io.BytesIO(PASSWD))
    return content.getvalue()


def make(engine: str) -> str:
    """Have *engine* make the image, if it has none; return why it cannot, or nothing."""
    if shutil.which(engine) is None or not BUSYBOX.exists():
        return f"`{engine}` or busybox is not installed"
    if subprocess.run([engine, "image", "inspect", IMAGE], capture_output=True, check=False).returncode == 0:  # noqa: S603 - of the machine
        return ""
    made = subprocess.run([engine, "import", "-", IMAGE], input=root(), capture_output=True, check=False)  # noqa: S603 - of the machine
    return made.stderr.decode(errors="replace") if made.returncode else ""


if __name__ == "__main__":
    raise SystemExit(make("podman") or os.EX_OK)
