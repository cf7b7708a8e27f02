"""Names of a package, each imported at its first use."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def exports(
    package: str, homes: "Mapping[str, str]", *others: str
) -> "tuple[list[str], Callable[[str], object], Callable[[], list[str]]]":
    """`__all__`, `__getattr__` and `__dir__` of a package. `homes`: the names by module, with spaces between.

    `others`: names that the package has itself.
    """
    home = {name: module for module, names in homes.items() for name in names.split()}

    def get(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        import sys
        from importlib import import_module

        value = getattr(import_module(f"tradesdk.{home[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return sorted(home), get, lambda: sorted((*home, *others))
