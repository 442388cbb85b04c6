// Manual placement: data that does not fit on one GPU is half there and half on the host, every
// kernel uses all of it through one pointer, and the halves are swapped.
#include "gpus.hpp"

#include <fmt/format.h>

#include <numeric>

namespace {

constexpr std::size_t MiB = 1 << 20;
constexpr std::size_t half = 64 * MiB;
constexpr std::size_t bytes = 2 * half;
constexpr Gpus::Word seed = 7;

/// Prints where the halves are. Returns true if every GPU reads what was written.
bool show(vma::Runtime& runtime, Gpus& gpus, const void* data, const char* step) {
  Gpus::Word wrong = 0;
  for (const Gpus::Finding& found : gpus.read(data, bytes, seed)) wrong += found.wrong_words;
  fmt::print("{:<28} {:<44} {} GPUs read it, {} words wrong\n", step, places(runtime.where(data)),
             gpus.count(), wrong);
  return wrong == 0;
}

/// Returns true if the GPU refuses the whole array, because it exceeds the cap.
bool does_not_fit(vma::Runtime& runtime) try {
  runtime.free(runtime.alloc(bytes, vma::gpu(0)));
  fmt::print("{} MiB fitted on a GPU that is capped below that\n", bytes / MiB);
  return false;
} catch (const vma::Error& error) {
  fmt::print("all on gpu(0)?               {}\n", error.what());
  return error.kind() == vma::ErrorKind::out_of_memory;
}

/// The CPU sums the host's half through the same pointer. The half does not move during the view.
bool cpu_reads(vma::Runtime& runtime, std::byte* data) {
  const vma::HostView view = runtime.host_view(data, half);
  const auto* words = reinterpret_cast<const Gpus::Word*>(view.bytes().data());
  const std::size_t count = half / sizeof(Gpus::Word);
  const Gpus::Word sum = std::accumulate(words, words + count, Gpus::Word{0});
  const bool right = sum == count * seed + count * (count - 1) / 2;
  fmt::print("{:<28} the CPU sums the first half in place: {}\n", "", right ? "right" : "WRONG");
  return right;
}

bool run() {
  vma::RuntimeOptions options;
  options.capacity_bytes[vma::gpu(0)] = 80 * MiB;
  vma::Runtime runtime(options);
  Gpus gpus(runtime);
  fmt::print("{}, gpu(0) capped at {} MiB\n", runtime.description(), 80);
  bool right = does_not_fit(runtime);

  auto* data = static_cast<std::byte*>(runtime.alloc(bytes, vma::host(0), {.tag = "tiered"}));
  gpus.fill(data, bytes, seed);
  right = show(runtime, gpus, data, "all on the host") && right;
  runtime.migrate(data, 0, half, vma::gpu(0));
  right = show(runtime, gpus, data, "first half on the GPU") && right;
  runtime.migrate(data, 0, half, vma::host(0));  // Moved first, to make room for the second half.
  runtime.migrate(data, half, half, vma::gpu(0));
  right = show(runtime, gpus, data, "halves swapped") && right;
  right = cpu_reads(runtime, data) && right;
  runtime.free(data);
  return right;
}

}  // namespace

int main() try { return run() ? 0 : 1; } catch (const vma::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
