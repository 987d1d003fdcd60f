"""``python -m scheduler``, ``equipoise`` and ``kubectl equipoise``: the same program."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    import atexit
    import gc
    import sys

    import uvloop

    uvloop.install()
    # The interpreter's last collections would free object by object what ends with the process.
    atexit.register(gc.freeze)
    from scheduler.cli.main import cli

    plugin = "kubectl-equipoise" in sys.argv[0]
    cli.main(prog_name="kubectl equipoise" if plugin else "equipoise")


if __name__ == "__main__":
    main()
