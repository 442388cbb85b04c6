// Moves memory while it is in constant use: a stream on each GPU adds to its half of an array
// without pause while the array moves back and forth, and not a single addition is lost.
//   live_move [MiB]      VMART_DRIVER=sim:h200x2 asks for a simulated machine
#include <vma/vma.hpp>

// Shows how to write a kernel for real and simulated GPUs.
#include "../tests/support/test_kernels.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <stop_token>
#include <thread>

namespace {

using Word = std::uint64_t;
constexpr std::size_t MiB = 1 << 20;
constexpr int moves = 10;
constexpr Word batch = 8;  // Number of launches in progress at once.

/// One GPU's stream, and how often it has added 1 to every word of its half.
struct Adder {
  vma::Place gpu;
  vma::Stream stream = vma::make_stream(gpu);
  Word additions = 0;

  void run(Word* words, Word count, const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (Word i = 0; i < batch; ++i, ++additions) {
        vma::launch(stream, vma::add_kernel(), {1024}, {256}, words, count, Word{1});
      }
      vma::synchronize(stream);
    }
  }
};

double ms(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

void to_and_fro(void* data, const std::array<vma::Place, 2>& places) {
  fmt::print("{:<18} {:>9} {:>16} {:>13} {:>12} {:>12}\n", "route", "wall, ms", "stall median, ms",
             "stall max, ms", "chunks live", "copied twice");
  for (int move = 0; move < moves; ++move) {
    const vma::MigrationReport report = vma::migrate_async(data, places[(move + 1) % 2]).wait();
    fmt::print("{:<18} {:>9.2f} {:>16.3f} {:>13.3f} {:>6} of {:<2} {:>8} MiB\n", report.route,
               ms(report.wall), ms(report.stall.median), ms(report.stall.max), report.chunks_live,
               report.chunks, report.bytes_copied_twice / MiB);
  }
}

bool run(std::size_t asked_mib) {
  const bool simulated = vma::runtime().description().starts_with("simulated");
  const bool pair = vma::runtime().places().at(1).kind == vma::Place::Kind::gpu;
  const std::size_t bytes = (asked_mib != 0 ? asked_mib : simulated ? 8 : 1024) * MiB;
  const Word half = bytes / sizeof(Word) / 2;
  const vma::AllocOptions options{.chunk_bytes = bytes / 4, .tag = "sums", .zeroed = true};
  auto* words = static_cast<Word*>(vma::alloc(bytes, vma::gpu(0), options));
  std::array<Adder, 2> adders{Adder{vma::gpu(0)}, Adder{vma::gpu(pair ? 1 : 0)}};
  fmt::print("{}{}\n", vma::runtime().description(),
             simulated ? ": times are those of its cost model" : "");
  {
    const std::jthread low([&](const std::stop_token& stop) { adders[0].run(words, half, stop); });
    const std::jthread high(
        [&](const std::stop_token& stop) { adders[1].run(words + half, half, stop); });
    to_and_fro(words, {vma::gpu(0), pair ? vma::gpu(1) : vma::host(0)});
  }
  std::vector<Word> sums(2 * half);
  vma::read(words, std::as_writable_bytes(std::span(sums)));
  Word wrong = 0;
  for (Word i = 0; i < sums.size(); ++i) wrong += sums[i] != adders[i / half].additions;
  fmt::print("{} and {} additions to every word, {} words wrong\n", adders[0].additions,
             adders[1].additions, wrong);
  for (const Adder& adder : adders) vma::destroy_stream(adder.stream);
  vma::free(words);
  return wrong == 0;
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0) ? 0 : 1;
} catch (const vma::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
