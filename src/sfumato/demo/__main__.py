"""`python -m sfumato.demo`: run the demo, or draw the picture in the README."""

from __future__ import annotations

import argparse
from pathlib import Path

from sfumato.demo.run import draw_picture, run


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m sfumato.demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the page")
    parser.add_argument("--people", type=int, default=100_000, help="how many live in the town")
    parser.add_argument("--seed", type=int, help="for repeatable reports")
    parser.add_argument("--picture", type=Path, help="draw only the picture, as PNG")
    given = parser.parse_args(arguments)
    if given.picture:
        draw_picture(given.picture)
        print(f"wrote {given.picture}")
        return
    result = run(given.out, people=given.people, seed=given.seed)
    for row in result.rows:
        print(f"{row.question}: {row.answer} (truth {row.truth:,.6g})")
    print(f"wrote {result.page}")


if __name__ == "__main__":
    main()
