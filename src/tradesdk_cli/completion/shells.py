"""The four shells: the script that makes each complete `trade`, where it goes, and the line that loads it.

The scripts hand over the words up to the cursor with U+001F between them; `completing` says what comes back.
"""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tradesdk_cli.errors import ConfigProblem, UsageProblem
from tradesdk_cli.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Mapping

SHELLS = ("bash", "zsh", "fish", "powershell")
MARK = "# completion of trade"

_BASH = r"""# Completion of trade for bash. Load it with: source FILE
_trade_complete() {
    local IFS=$'\x1f' line kind=
    local words="${COMP_WORDS[*]:0:COMP_CWORD+1}"
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ -z $kind ]]; then
            kind=$line
        else
            COMPREPLY+=("$line")
        fi
    done < <(_TRADE_COMPLETE=complete_bash _TRADE_WORDS="$words" _TRADE_LINE="${COMP_LINE:0:COMP_POINT}" \
        command trade 2>/dev/null)
    if [[ $kind == files ]]; then
        compopt -o default 2>/dev/null
    fi
}
if type compopt >/dev/null 2>&1; then
    complete -F _trade_complete trade
else
    complete -o default -F _trade_complete trade
fi
"""

_ZSH = r"""#compdef trade
# Completion of trade for zsh. Load it after compinit with: source FILE
_trade() {
    local -a answer described plain
    local line tab=$'\t'
    answer=("${(@f)$(_TRADE_COMPLETE=complete_zsh _TRADE_WORDS="${(pj:\x1f:)words[1,CURRENT]}" \
        command trade 2>/dev/null)}")
    for line in "${(@)answer[2,-1]}"; do
        if [[ $line == *$tab* ]]; then
            described+=("${${line%%$tab*}//:/\\:}:${line#*$tab}")
        elif [[ -n $line ]]; then
            plain+=("$line")
        fi
    done
    if [[ $answer[1] == files ]]; then
        compset -P '--*='
        compset -P '@'
        _files
    fi
    (( $#described )) && _describe -V unsorted described
    (( $#plain )) && compadd -V unsorted -a plain
}
if [[ $funcstack[1] == _trade ]]; then
    _trade "$@"
else
    compdef _trade trade
fi
"""

_FISH = r"""# Completion of trade for fish. It is loaded from the folder of completions.
function __trade_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l answer (env _TRADE_COMPLETE=complete_fish _TRADE_WORDS=(string join \x1f -- $words) trade 2>/dev/null)
    if test (count $answer) -eq 0
        return
    end
    if test "$answer[1]" = files
        set -l token (commandline -ct)
        set -l before (string match -r '^(?:--[^=]*=)?@?' -- $token)
        set -l rest (string replace -- "$before" '' $token | string trim --left --chars '"\'')
        for file in (__fish_complete_path $rest)
            echo -- $before$file
        end
    end
    if test (count $answer) -gt 1
        string join \n -- $answer[2..-1]
    end
end
complete --command trade --no-files --keep-order --arguments '(__trade_complete)'
"""

_POWERSHELL = r"""# Completion of trade for PowerShell. Load it with: . FILE
Register-ArgumentCompleter -Native -CommandName trade -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements |
        Where-Object { $_.Extent.StartOffset -lt $cursorPosition } | ForEach-Object { $_.Extent.Text })
    if ($wordToComplete -eq '') { $words += '' }
    $env:_TRADE_COMPLETE = 'complete_powershell'
    $env:_TRADE_WORDS = $words -join [char]31
    try { $answer = @(trade 2>$null) }
    finally { Remove-Item Env:_TRADE_COMPLETE, Env:_TRADE_WORDS -ErrorAction SilentlyContinue }
    $answer | Select-Object -Skip 1 | ForEach-Object {
        $value, $about = $_ -split "`t", 2
        if (-not $about) { $about = $value }
        [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $about)
    }
}
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH, "powershell": _POWERSHELL}


@dataclass(frozen=True)
class Place:
    """Where completion of one shell lives.

    Attributes:
        shell: one of `SHELLS`.
        script: the file of the script.
        rc_file: the file that the shell reads when it starts; None where it finds the script by itself.
        rc_line: the line there that loads the script.
        activate: how to have it in a shell that runs already; None where that finds it by itself.
    """

    shell: str
    script: Path
    rc_file: Path | None
    rc_line: str | None
    activate: str | None

    @property
    def loaded(self) -> bool:
        """The script is installed, and the line that loads it."""
        return self.written and not self.line_missing

    @property
    def written(self) -> bool:
        """The script is installed."""
        return _text(self.script) == SCRIPTS[self.shell].encode()

    @property
    def line_missing(self) -> bool:
        """The shell would not find the script yet."""
        return self.rc_file is not None and not any(self.is_ours(line) for line in _text(self.rc_file).splitlines())

    def is_ours(self, line: bytes) -> bool:
        """True for the line of `rc_file` that loads the script."""
        return self.rc_line is not None and line.strip() == self.rc_line.encode("utf-8", "surrogateescape")


def _text(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return b""


def shell_of(name: str | None, environ: Mapping[str, str]) -> str:
    """The shell that is meant: the one named, or the one of this session.

    Raises:
        UsageProblem: it is none of the four, or cannot be told.
    """
    given = name or ("powershell" if sys.platform == "win32" else Path(environ.get("SHELL", "")).name)
    shell = {"pwsh": "powershell"}.get(given.lower(), given.lower())
    if shell in SHELLS:
        return shell
    said = (
        f"completion is for {', '.join(SHELLS[:-1])} and {SHELLS[-1]}, not {given!r}"
        if given
        else "SHELL is not set, so the shell is not known"
    )
    raise UsageProblem(said, "name one: trade completion install bash")


def place_of(shell: str, environ: Mapping[str, str]) -> Place:
    """Where completion of `shell` is, or would be.

    Raises:
        ConfigProblem: there is no home folder.
    """
    home = Path(os.path.expanduser("~"))
    if not home.is_absolute():
        raise ConfigProblem(
            "there is no home folder for the script", f"set HOME; or print it: trade completion {shell}"
        )
    data = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "trade"
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    if shell == "fish":
        script = config / "fish" / "completions" / "trade.fish"
        return Place(shell, script, None, None, None)
    script = data / f"completion.{'ps1' if shell == 'powershell' else shell}"
    quoted = shlex.quote(str(script))
    if shell == "bash":
        return Place(shell, script, home / ".bashrc", f"[ -r {quoted} ] && . {quoted} {MARK}", f"source {quoted}")
    if shell == "zsh":
        line = f"(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit }}; source {quoted} {MARK}"
        return Place(shell, script, Path(environ.get("ZDOTDIR") or home) / ".zshrc", line, f"source {quoted}")
    quoted = "'" + str(script).replace("'", "''") + "'"
    folder = home / "Documents" / "PowerShell" if sys.platform == "win32" else config / "powershell"
    return Place(shell, script, folder / "Microsoft.PowerShell_profile.ps1", f". {quoted} {MARK}", f". {quoted}")


def install(place: Place) -> None:
    """Writes the script and, once, the line that loads it.

    Raises:
        OSError: a file cannot be written.
    """
    place.script.parent.mkdir(parents=True, exist_ok=True)
    if not place.written:
        _replace(place.script, SCRIPTS[place.shell].encode())
    if place.line_missing and place.rc_file is not None and place.rc_line is not None:
        place.rc_file.parent.mkdir(parents=True, exist_ok=True)
        before = _text(place.rc_file)
        gap = b"" if not before or before.endswith(b"\n") else b"\n"
        _replace(place.rc_file, before + gap + place.rc_line.encode("utf-8", "surrogateescape") + b"\n")


def uninstall(place: Place) -> None:
    """Removes both. Nothing else of the shell's own file changes.

    Raises:
        OSError: a file cannot be written.
    """
    if place.rc_file is not None and not place.line_missing:
        lines = _text(place.rc_file).splitlines(keepends=True)
        _replace(place.rc_file, b"".join(line for line in lines if not place.is_ours(line)))
    place.script.unlink(missing_ok=True)


def _replace(path: Path, content: bytes) -> None:
    """Through a link where the file is one."""
    atomic_write(Path(os.path.realpath(path)), content)
