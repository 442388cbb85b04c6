// The demo: memory moves from GPU to GPU, to the host and back under one pointer, and a kernel on
// every GPU reads it through that pointer before the first move and after each one.
//   migrate_once [MiB]      VMART_DRIVER=sim:h200x2 asks for a simulated machine
#include "gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>

namespace {

constexpr std::size_t MiB = 1 << 20;
constexpr Gpus::Word seed = 42;

struct Demo {
  vma::Runtime& runtime;
  Gpus gpus;
  std::byte* data = nullptr;
  std::size_t bytes = 0, chunk_bytes = 0;
  bool right = true;
};

/// Prints a row of the table: where the memory is, and what every GPU reads through the pointer.
void show(Demo& demo, std::string_view step, std::string_view speed) {
  const std::string lies = places(demo.runtime.where(demo.data));
  fmt::print("{:<16} {:<10} {:>12}  ", step, lies, speed);
  for (const Gpus::Finding& found : demo.gpus.read(demo.data, demo.bytes, seed)) {
    const bool right = found.wrong_words == 0;
    fmt::print(" {:016x} {:<5}", found.sum, right ? "ok" : "WRONG");
    demo.right = demo.right && right;
  }
  fmt::print("\n");
}

void draw_bar(std::size_t done, std::size_t all) {
  constexpr std::size_t width = 40;
  const std::size_t filled = width * done / all;
  fmt::print("\r  [{:#<{}}{:.<{}}] {} of {} MiB", "", filled, "", width - filled, done / MiB,
             all / MiB);
  if (done == all) fmt::print("\r{:70}\r", "");
  std::fflush(stdout);
}

/// Moves everything in one call or, on a terminal, range by range with a progress bar.
void move(Demo& demo, vma::Place to) {
  // Allocates at the target in advance, so that the rate is that of the move alone.
  demo.runtime.reserve(to, demo.bytes, demo.chunk_bytes);
  const bool bar = isatty(STDOUT_FILENO) != 0;
  const std::size_t chunks = demo.bytes / demo.chunk_bytes;
  const std::size_t step =
      bar ? std::max<std::size_t>(1, chunks / 8) * demo.chunk_bytes : demo.bytes;
  std::chrono::nanoseconds time{0};
  for (std::size_t offset = 0; offset < demo.bytes; offset += step) {
    const std::size_t bytes = std::min(step, demo.bytes - offset);
    time += demo.runtime.migrate(demo.data, offset, bytes, to).wall;
    if (bar) draw_bar(offset + bytes, demo.bytes);
  }
  const double seconds = std::chrono::duration<double>(time).count();
  show(demo, "moved to " + to_string(to),
       fmt::format("{:.1f}", static_cast<double>(demo.bytes) * 1e-9 / seconds));
}

bool run(std::size_t asked_mib) {
  vma::Runtime& runtime = vma::runtime();
  const bool simulated = runtime.description().starts_with("simulated");
  Demo demo{runtime, Gpus(runtime)};
  demo.bytes = (asked_mib != 0 ? asked_mib : simulated ? 256 : 4096) * MiB;
  demo.chunk_bytes = std::min(demo.bytes, 64 * MiB);
  demo.data = static_cast<std::byte*>(
      runtime.alloc(demo.bytes, vma::gpu(0), {.chunk_bytes = demo.chunk_bytes, .tag = "demo"}));
  demo.gpus.fill(demo.data, demo.bytes, seed);
  fmt::print("{}\n{} MiB at {}, for all of its life\n\n", runtime.description(), demo.bytes / MiB,
             fmt::ptr(demo.data));
  fmt::print("{:<16} {:<10} {:>12}  ", "", "lies at", simulated ? "GB/s (model)" : "GB/s");
  for (std::size_t i = 0; i < demo.gpus.count(); ++i) fmt::print(" gpu({}) reads the sum  ", i);
  fmt::print("\n");
  show(demo, "written", "");
  for (const vma::Place place : runtime.places()) {  // The other GPUs, then host nodes.
    if (place != vma::gpu(0)) move(demo, place);
  }
  move(demo, vma::gpu(0));
  runtime.free(demo.data);
  fmt::print("\n{}\n", demo.right ? "every GPU read what was written, every time" : "WRONG WORDS");
  return demo.right;
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0) ? 0 : 1;
} catch (const vma::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
