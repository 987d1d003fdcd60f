"""``python -m tests.reliability``: check the list of bugs, and write docs/reliability.md."""

import sys

from tests.reliability import bugs, outcomes
from tests.reliability.page import PAGE, page


def main() -> None:
    """Write the page, unless an entry names what does not exist."""
    found = bugs.load()
    missing = [each.reproduce for each in found if not bugs.exists(each.reproduce)]
    if missing:
        sys.exit(f"{bugs.FILE}: there is no " + ", no ".join(missing))
    PAGE.write_text(page(outcomes.load(), found))


if __name__ == "__main__":
    main()
