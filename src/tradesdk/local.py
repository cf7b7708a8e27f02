"""What the terminal client `trade` and the SDK share on one machine: profiles and saved keys.

Programs do not need it: `TradeClient(profile="bob")` reads what `trade login --profile bob` saved.
"""

from ._local.files import SettingsFile
from ._local.folders import config_folder, data_folder
from ._local.keys import KeyStore
from ._local.origins import host_of, origin_of
from ._local.profiles import Profiles
from ._system.private_files import new_part, remove_parts

__all__ = [
    "KeyStore",
    "Profiles",
    "SettingsFile",
    "config_folder",
    "data_folder",
    "host_of",
    "new_part",
    "origin_of",
    "remove_parts",
]
