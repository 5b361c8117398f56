# SPDX-License-Identifier: Apache-2.0
"""The peer's end of the protocol of bench/run/peer.h: one JSON object a line, both ways.

A peer program calls serve(load). load() imports the library and returns an object with

    versions            a dict for the result file
    variants(shape)     [(name, prepare)]: prepare(request) makes tensors and returns a function of
                        no arguments that launches one call; it raises Declined with a reason
    differs(name)       optional: how that variant's work differs from the row's, or None
    gemm()              optional: (TFLOP/s, what was measured)

Whatever libraries print goes to stderr, which the runner keeps in a log.
"""

import gc
import importlib.metadata
import json
import os
import sys
import traceback


class Declined(Exception):
    """This variant does not serve the shape; the message says why."""


def version_of(*packages):
    """Versions of the packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def _reason(error):
    text = " ".join(str(error).split())
    if isinstance(error, Declined):
        return text
    traceback.print_exception(error)
    return f"{type(error).__name__}: {text[:300]}"


def _time_variant(prepare, request):
    import peer_timing

    call = prepare(request)
    return peer_timing.sample_scopes(call, request)


def _answer_shape(peer, request):
    results, declined = [], []
    variants = peer.variants(request["shape"])
    differs = getattr(peer, "differs", lambda name: None)
    for name, prepare in variants if request["pass"] == 1 else variants[::-1]:
        note = {"differs": differs(name)} if differs(name) else {}
        try:
            for entry in _time_variant(prepare, request):
                results.append({"backend": name, **note, **entry})
        except Exception as error:  # a peer's failure is a line, never the end of a run
            declined.append({"backend": name, "reason": _reason(error)})
        _forget()
    return {"results": results, "declined": declined}


def _answer(peer, request):
    if "ceiling" not in request:
        return _answer_shape(peer, request)
    if not hasattr(peer, "gemm"):
        return {"reason": "no matrix product here"}
    try:
        rate, what = peer.gemm()
    except Exception as error:
        return {"reason": _reason(error)}
    finally:
        _forget()
    return {"tflop_per_s": rate, "from": what}


def _forget():
    """Frees the tensors of the last call, on the GPU too."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def serve(load):
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(message):
        print(json.dumps(message), file=channel, flush=True)

    try:
        peer = load()
    except Exception as error:
        say({"ready": False, "reason": _reason(error)})
        return
    gc.collect()
    gc.freeze()  # what the libraries made while loading need not be searched after every variant
    say({"ready": True, "versions": peer.versions})
    for line in sys.stdin:
        say(_answer(peer, json.loads(line)))
