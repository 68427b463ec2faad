"""Devices: a study compiled to data, the interpreter, the wire format and the client."""
