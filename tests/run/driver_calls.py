"""The calls of the driver by the version of CUDA that added them, and what `vmart run` does about each.
driver_calls.py FOLDER... prints those of the headers that driver_calls.txt lacks, with the kind to think about."""

import pathlib
import re
import sys

LIST = pathlib.Path(__file__).with_name("driver_calls.txt")
KINDS = ("hooked", "harmless", "unknown")


def listed():
    """{version: {symbol: kind}}. A name with +ptsz or +ptds stands for two symbols."""
    found, version, kind = {}, None, None
    for line in LIST.read_text().splitlines():
        line = line.partition("#")[0]
        if head := re.match(r"(\d+)\.(\d+) (\w+):", line):
            version, kind = (int(head[1]), int(head[2])), head[3]
            if kind not in KINDS:
                raise ValueError(f"{kind} is none of {KINDS}")
            line = line[head.end():]
        for name in line.split():
            symbol, _, variant = name.partition("+")
            for each in [symbol] + ([f"{symbol}_{variant}"] if variant else []):
                if any(each in symbols for symbols in found.values()):
                    raise ValueError(f"{each} is listed twice")
                found.setdefault(version, {})[each] = kind
    return found


def version_of(folder):
    number = int(re.search(r"^#define CUDA_VERSION (\d+)", (folder / "cuda.h").read_text(errors="replace"), re.M)[1])
    return number // 1000, number % 1000 // 10


def symbols_in(folder):
    """What a driver of that version exports, for any program: of CUDA, OpenGL, EGL, VDPAU and the profiler."""
    symbols = set()
    for name in ("cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h"):
        if not (folder / name).exists():
            continue  # A machine may have the first one only.
        text = re.sub(r"/\*.*?\*/", "", (folder / name).read_text(errors="replace"), flags=re.DOTALL)
        symbols |= set(re.findall(r"\bCUDAAPI\s+(cu\w+)\s*\(", text))
        symbols |= set(re.findall(r"#\s*define\s+cu\w+\s+(cu\w+)", text))
        symbols -= set(re.findall(r"\bstatic inline CUresult (cu\w+)\(", text))
        for stream, zero, symbol in re.findall(r"\b__CUDA_API_PT([SD])([SZ])\((cu\w+)\)", text):
            symbols |= {symbol, f"{symbol}_pt{stream.lower()}{zero.lower()}"}
    profiler = folder / "cudaProfilerTypedefs.h"
    if profiler.exists():
        symbols |= set(re.findall(r"\bPFN_(cuProfiler\w+?)_v\d+\b", profiler.read_text(errors="replace")))
    return symbols


def main():
    known = {symbol for symbols in listed().values() for symbol in symbols}
    for folder in sorted(map(pathlib.Path, sys.argv[1:]), key=version_of):
        new = sorted(symbols_in(folder) - known)
        known |= set(new)
        print(".".join(map(str, version_of(folder))), " ".join(new))


if __name__ == "__main__":
    main()
