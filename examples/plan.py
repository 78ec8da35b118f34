#!/usr/bin/env python3
"""Plans with libcleave from Python, which needs nothing but ctypes.

usage: plan.py MODEL DEVICE CLUSTER BATCH     CLEAVE_LIBRARY: the library's file, where the system does not find it

MODEL is a native model or a Hugging Face config.json, DEVICE the file of the type that CLUSTER names, as
DATA/planner/facts/devices/h100-sxm.json (DATA: pkg-config --variable=cleavedata cleave). The plan goes to standard output.
"""
import ctypes
import ctypes.util
import os
import pathlib
import sys


class Device(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("json", ctypes.c_char_p), ("length", ctypes.c_size_t)]


class Request(ctypes.Structure):
    _fields_ = [
        ("model_name", ctypes.c_char_p),
        ("model", ctypes.c_char_p),
        ("model_length", ctypes.c_size_t),
        ("cluster", ctypes.c_char_p),
        ("devices", ctypes.POINTER(Device)),
        ("device_count", ctypes.c_int),
        ("profile", ctypes.c_char_p),
        ("profile_length", ctypes.c_size_t),
        ("batch", ctypes.c_int64),
        ("sequence", ctypes.c_int64),
        ("dtype", ctypes.c_char_p),
    ]


class Answer(ctypes.Structure):
    _fields_ = [("plan", ctypes.c_char_p), ("plan_length", ctypes.c_size_t), ("step_s", ctypes.c_double), ("message", ctypes.c_char * 2048)]


class CleaveError(Exception):
    """code: 1 no memory, 2 bad input, 3 nothing fits, 70 a bug."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def load():
    path = os.environ.get("CLEAVE_LIBRARY") or ctypes.util.find_library("cleave") or "libcleave.so.0"
    library = ctypes.CDLL(path)
    library.cleave_plan.argtypes = [ctypes.POINTER(Request), ctypes.POINTER(Answer)]
    library.cleave_plan.restype = ctypes.c_int
    library.cleave_answer_free.argtypes = [ctypes.POINTER(Answer)]
    library.cleave_answer_free.restype = None
    library.cleave_version.restype = ctypes.c_char_p
    return library


def plan(library, model, device, cluster, batch, sequence=0, dtype=None):
    """The plan's JSON and the predicted seconds of a step. model, device: paths; sequence 0: the model's own."""
    model_text, device_text = pathlib.Path(model).read_bytes(), pathlib.Path(device).read_bytes()
    devices = Device(pathlib.Path(device).stem.encode(), device_text, len(device_text))
    request = Request(str(model).encode(), model_text, len(model_text), cluster.encode(), ctypes.pointer(devices), 1, None, 0, batch, sequence,
                      dtype.encode() if dtype else None)
    answer = Answer()
    code = library.cleave_plan(ctypes.byref(request), ctypes.byref(answer))
    try:
        if code:
            raise CleaveError(code, answer.message.decode())
        return answer.plan.decode(), answer.step_s
    finally:
        library.cleave_answer_free(ctypes.byref(answer))


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    library = load()
    try:
        text, step_s = plan(library, *sys.argv[1:4], int(sys.argv[4]))
    except CleaveError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.code)
    print(f"cleave {library.cleave_version().decode()}: a step of {step_s:.3g} s", file=sys.stderr)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
