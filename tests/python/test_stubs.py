# SPDX-License-Identifier: Apache-2.0
"""The stubs say what the functions take: no more, no less."""

import ast
import inspect
from pathlib import Path

import pytest
import tilegate
from tilegate import _calls, attention, linear


def _stubs(module):
    text = Path(inspect.getfile(module)).with_suffix(".pyi").read_text()
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return {node.name: [arg.arg for arg in node.args.args + node.args.kwonlyargs]
            for node in functions}


def _public(module):
    return {name for name in tilegate.__all__
            if getattr(getattr(tilegate, name), "__module__", "") == module.__name__}


@pytest.mark.parametrize("module", [attention, linear])
def test_every_public_function_has_a_stub_with_its_arguments(module):
    stubs = _stubs(module)
    assert set(stubs) == _public(module)
    for name, arguments in stubs.items():
        parameters = inspect.signature(getattr(module, name)).parameters
        named = [n for n, p in parameters.items() if p.kind is not p.VAR_KEYWORD]
        if len(named) == len(parameters):
            assert sorted(arguments) == sorted(named), name
            continue
        # The rest goes by name into the tables of tensors and options.
        assert set(named) <= set(arguments), name
        taken = set(_calls.DELTA.arrays) | linear._OPTIONS | set(named)
        assert set(arguments) <= taken, name
