"""The gateway as an ASGI application, for a server of your own choice.

``uvicorn --factory tokenbox.gateway.application:application``, or the same with hypercorn or granian, reads
the settings of the folder that it is started in. ``tokenbox serve`` adds bounds on how slow a client may be,
workers with one set of figures, the operator's listener and reloads.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from tokenbox.config import load
from tokenbox.gateway.build import Stores, gateway_of
from tokenbox.gateway.configured import settings_from
from tokenbox.gateway.log import RequestLog

if TYPE_CHECKING:
    from tokenbox.gateway.app import Gateway


def application(folder: str = ".") -> Gateway:
    """The application by the settings of ``folder``.

    It cannot know who reaches the server, so clients need keys unless ``gateway.keys`` is false. Raises
    ``ConfigError`` and what the stores raise.
    """
    settings = settings_from(folder, {})
    if load(folder).value("gateway.keys") is None:
        settings = replace(settings, keys_required=True)
    gateway, _ = gateway_of(settings, Stores.open(settings), RequestLog(sys.stderr.write))
    return gateway
