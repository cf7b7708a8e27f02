"""Entry point of `trade`. Answers `--version` and shell completion before importing anything else."""

import io
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def trade() -> "NoReturn":
    """The console script. Runs the command line and exits without Python's slow shutdown."""
    import gc
    import os

    gc.set_threshold(100_000)  # imported objects stay: collecting garbage among them takes 5% of a list command
    code = main()
    if "threading" not in sys.modules or sys.modules["threading"].active_count() == 1:
        import atexit

        atexit._run_exitfuncs()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:
            pass  # Python's own exit flushes again and prints the error
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
            pass  # the full command line reports the error
        else:
            return 0
    import contextlib
    import os

    if "_TRADE_COMPLETE" in os.environ:
        from tradesdk_cli.completion.candidates import answer

        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        with contextlib.suppress(OSError):  # the shell has closed the pipe
            print(answer(os.environ), flush=True)
        return 0
    from tradesdk_cli.text import print_in_any_encoding

    print_in_any_encoding()
    if argv is None:
        from tradesdk_cli.interrupts import end_at_once

        end_at_once()
    from tradesdk_cli.app import run

    if argv is None:
        # If installed, httpx imports its command line, and httpcore trio and HTTP/2. No command uses them, and they
        # take a quarter of the time of a list. Both work without them. Only in our own process, never in a caller's.
        for unused in ("httpx._main", "trio", "h2"):
            sys.modules.setdefault(unused, None)  # type: ignore[arg-type]
    return run(args)


if __name__ == "__main__":
    trade()
