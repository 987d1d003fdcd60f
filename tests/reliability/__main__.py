"""``python -m tests.reliability``: check the list of bugs, and write docs/reliability.md."""

import argparse
import sys
from pathlib import Path

from tests.reliability import bugs, outcomes, simulated
from tests.reliability.page import PAGE, page


def main() -> None:
    """Write the page, unless an entry names what does not exist."""
    parser = argparse.ArgumentParser(prog="python -m tests.reliability", description=__doc__)
    parser.add_argument(
        "--simulated",
        metavar="SCENARIO=FILE",
        action="append",
        default=[],
        help="add seeds that were run, from what `python -m tests.sim --output` wrote",
    )
    for each in parser.parse_args().simulated:
        _add(each)
    found = bugs.load()
    missing = [each.reproduce for each in found if not bugs.exists(each.reproduce)]
    if missing:
        sys.exit(f"{bugs.FILE}: there is no " + ", no ".join(missing))
    PAGE.write_text(page(outcomes.load(), simulated.load(), found))


def _add(text: str) -> None:
    scenario, _, file = text.partition("=")
    with Path(file).open("rb") as lines:
        run = simulated.summarised(scenario, lines)
    simulated.save(simulated.added(simulated.load(), run))


if __name__ == "__main__":
    main()
