"""Entry point of `trade`. Answers `--version`, and a shell's TAB, before anything else is imported."""

import io
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def trade() -> "NoReturn":
    """The console script: runs the command line and ends the process without taking Python apart, which is slow."""
    import gc
    import os

    gc.set_threshold(100_000)  # what is imported stays: looking for garbage in it takes a twentieth of a list
    code = main()
    if "threading" not in sys.modules or sys.modules["threading"].active_count() == 1:
        import atexit

        atexit._run_exitfuncs()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:
            pass  # Python's own way out tries again, and says so
        else:
            os._exit(code)
    sys.exit(code)


def main(argv: "Sequence[str] | None" = None) -> int:
    """Runs one command line and returns its exit code; `argv` is without the program's name."""
    try:
        return _main(argv)
    except KeyboardInterrupt:
        from tradesdk_cli.interrupts import say_interrupted

        return say_interrupted()


def _main(argv: "Sequence[str] | None") -> int:
    if None in (sys.stdin, sys.stdout, sys.stderr):
        from tradesdk_cli.files import open_closed_streams

        open_closed_streams()
    args = list(sys.argv[1:] if argv is None else argv)
    if args and args[-1] in ("--version", "-V") and all(word.startswith("-") for word in args):
        from tradesdk import __version__

        try:
            print(f"trade {__version__}", flush=True)
        except OSError:
            pass  # the long way says what is wrong
        else:
            return 0
    import contextlib
    import os

    if "_TRADE_COMPLETE" in os.environ:
        from tradesdk_cli.completion.candidates import answer

        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        with contextlib.suppress(OSError):  # the shell does not listen any more
            print(answer(os.environ), flush=True)
        return 0
    from tradesdk_cli.text import print_in_any_encoding

    print_in_any_encoding()
    if argv is None:
        from tradesdk_cli.interrupts import end_at_once

        end_at_once()
    from tradesdk_cli.app import run

    if argv is None:
        # Where they are installed, httpx imports a command line, and httpcore trio and HTTP/2, all of which no command
        # uses: a quarter of a list. Both do without what fails; only in our own process, never in a caller's.
        for unused in ("httpx._main", "trio", "h2"):
            sys.modules.setdefault(unused, None)  # type: ignore[arg-type]
    return run(args)


if __name__ == "__main__":
    trade()
