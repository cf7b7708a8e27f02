"""Entry point of `trade`. Answers `--version` before anything else is imported."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: "Sequence[str] | None" = None) -> int:
    """Runs one command line and returns its exit code; `argv` is without the program's name."""
    args = list(sys.argv[1:] if argv is None else argv)
    if args == ["--version"]:
        from tradesdk import __version__

        print(f"trade {__version__}")
        return 0
    from tradesdk_cli.app import run

    return run(args)


if __name__ == "__main__":
    sys.exit(main())
