"""Programs that a host runs on the plugin under test, each in a process of its own.

A program is a function without arguments that raises when a result is wrong. What it compares with is numpy, SciPy,
a closed form or a published value, never another plugin. The names are those of the table in docs/hosts.md.
"""
import functools
import sys

PROGRAMS = {}  # function by name, in the order of the table


def program(function):
    """Adds `function` to the host's list under its own name; its module's `check_plugin` goes first."""
    @functools.wraps(function)
    def checked():
        before = getattr(sys.modules[function.__module__], "check_plugin", None)
        if before is not None:
            before()
        function()

    PROGRAMS[function.__name__] = checked
    return function
