"""The bus: Apache Pulsar, embedded or a cluster, with requests, services and notices on it."""

from .broker import EmbeddedBroker
from .bus import Bus
from .notices import Listening
from .request import GiveUp, Handler, Request
from .runner import Serving
from .settings import BusSettings

__all__ = ["Bus", "BusSettings", "EmbeddedBroker", "GiveUp", "Handler", "Listening", "Request", "Serving"]
