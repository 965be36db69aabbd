"""A kernel's module as part of a program, for the TPU compiler."""

import re

from pallasc.module import Module

BESIDE = """

_alone = {name}


def {name}(narrow, *arrays, **options):
    return _alone(*arrays, **options), narrow[::-1]
"""


def beside(module):
    """The kernel in a module that makes an array of 8 bits too.

    XLA chooses how what a kernel makes is tiled by what else is in the module: on v7x arrays of 16
    bits come in taller tiles beside one of 8 bits, as where a dot reads them.
    """
    inputs = re.search(r"(['\"])inputs\1: \[", module.source)
    narrow = {"name": "narrow", "dtype": "int8", "shape": [32, 128]}
    text = module.source[: inputs.end()] + f"{narrow}, " + module.source[inputs.end() :]
    return Module(text + BESIDE.format(name=module.info["name"]), module.filename)
