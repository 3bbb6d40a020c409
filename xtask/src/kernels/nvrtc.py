"""Compiles one source for GPUs: nvrtc.py LIBRARY SOURCE PTX OPTION...

NVRTC is a library, and xtask holds no unsafe code; this is the one place that calls it. The headers are the .cuh files
beside SOURCE. What the compiler says goes to the error output; so does the reason when there is no PTX.
"""

import ctypes
import pathlib
import sys


def text_list(texts):
    return (ctypes.c_char_p * len(texts))(*[text.encode() for text in texts])


def log_of(nvrtc, program):
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    return log.value.decode().strip()


def ptx_of(nvrtc, program):
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx.value


def main(library, source, ptx, *options):
    nvrtc = ctypes.CDLL(library)
    source = pathlib.Path(source)
    headers = sorted(source.parent.glob("*.cuh"))
    program = ctypes.c_void_p()
    code = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program),
        source.read_bytes(),
        source.name.encode(),
        len(headers),
        text_list([header.read_text() for header in headers]),
        text_list([header.name for header in headers]),
    )
    if code != 0:
        return f"nvrtcCreateProgram: error {code}"
    code = nvrtc.nvrtcCompileProgram(program, len(options), text_list(options))
    log = log_of(nvrtc, program)
    if log:
        print(log, file=sys.stderr)
    if code != 0:
        return f"nvrtcCompileProgram: error {code}"
    pathlib.Path(ptx).write_bytes(ptx_of(nvrtc, program))
    return 0


sys.exit(main(*sys.argv[1:]))
