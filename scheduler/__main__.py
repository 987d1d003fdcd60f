"""``python -m scheduler``, ``equipoise`` and ``kubectl equipoise``: the same program."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    import uvloop

    uvloop.install()
    from scheduler.cli.main import cli

    cli.main(prog_name="equipoise")


if __name__ == "__main__":
    main()
