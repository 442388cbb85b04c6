#!/usr/bin/env python3
"""snippets.py README OUTPUT: makes one program of the README's C++ snippets.

Each snippet becomes a function of its own, which finds a stream, an allocation `p` of `bytes` bytes
and a kernel to launch, since that is what the snippets take as given.
"""

import re
import sys

PRELUDE = """
#include <vma/device.hpp>
#include <vma/vma.hpp>

#include <cstddef>
#include <cstdint>
#include <iostream>

namespace {

/// Runs on simulated machines only, where this test plays.
const vma::Kernel kernel{"", "add_one",
                         [](vma::DeviceView& view, const vma::KernelArguments& arguments, auto) {
                           view.atomic_add(arguments.at<std::uint64_t*>(0), 1);
                         }};

void launch_something(vma::Stream stream, void* p) {
  vma::launch(stream, kernel, {}, {}, p);
}

"""


def main(readme, output):
    with open(readme, encoding="utf-8") as file:
        snippets = re.findall(r"^```cpp\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)
    if not snippets:
        sys.exit(f"{readme}: no C++ snippets")
    includes, functions = [], []
    for number, snippet in enumerate(snippets):
        lines = snippet.splitlines()
        includes += [line for line in lines if line.startswith("#include")]
        body = "\n".join("  " + line for line in lines if not line.startswith("#include"))
        given = "" if re.search(r"^\s*void\* p = ", body, re.MULTILINE) else "void* p, std::size_t bytes, "
        functions.append((f"snippet_{number}", given, body))
    with open(output, "w", encoding="utf-8") as file:
        file.write("\n".join(dict.fromkeys(includes)) + PRELUDE)
        for name, given, body in functions:
            file.write(f"void {name}({given}vma::Stream stream) {{\n{body}\n}}\n\n")
        file.write("}  // namespace\n\nint main() {\n")
        file.write("  const vma::Stream stream = vma::make_stream(vma::gpu(0));\n")
        for name, given, _ in functions:
            if not given:
                file.write(f"  {name}(stream);\n")
                continue
            file.write("  {\n    constexpr std::size_t bytes = std::size_t{64} << 20;\n"
                       "    void* const p = vma::alloc(bytes, vma::gpu(0));\n"
                       f"    {name}(p, bytes, stream);\n    vma::free(p);\n  }}\n")
        file.write("}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
