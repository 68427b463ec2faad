from .choose import dask as dask
from .choose import local as local
from .choose import spark as spark
from .engine import Engine as Engine
