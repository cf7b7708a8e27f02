"""The scripts that make four shells complete `trade`.

They pass the words up to the cursor, separated by U+001F, or the line; `candidates` describes the output.
"""

_BASH = r"""# Completion of trade for bash. Load it with: source FILE
_trade_complete() {
    local line kind=
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ -z $kind ]]; then
            kind=$line
        else
            COMPREPLY+=("$line")
        fi
    done < <(_TRADE_COMPLETE=complete_bash _TRADE_LINE="${COMP_LINE:0:COMP_POINT}" command trade 2>/dev/null)
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
