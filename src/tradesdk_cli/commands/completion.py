"""`trade completion`: the script that lets a shell complete commands, ids and symbols."""

from __future__ import annotations

from tradesdk_cli.cli.group import noun

app = noun("completion", "Let your shell complete commands, ids and symbols.")

_FILES = {
    "bash": "~/.local/share/bash-completion/completions/trade",
    "zsh": "~/.zfunc/_trade",
    "fish": "~/.config/fish/completions/trade.fish",
    "powershell": "trade.ps1",
}


def _prints(shell: str) -> None:
    lines = f"trade completion {shell}", f"trade completion {shell} > {_FILES[shell]}"

    @app.verb(shell, *lines, help=f"Print the script for {shell}.", silent=True)
    def show() -> None:
        from tradesdk_cli.completion.shells import SCRIPTS

        print(SCRIPTS[shell], end="")


for _shell in _FILES:
    _prints(_shell)
