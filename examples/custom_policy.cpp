// A custom policy: its decisions, its name and parameters, and a runtime that uses it.
#include <vma/vma.hpp>

// Shows how to write a kernel for real and simulated GPUs.
#include "../tests/support/read_kernel.hpp"

#include <fmt/format.h>

namespace {

/// Moves every chunk to the GPU that uses it most, if that uses enough bytes of it per second.
class MostUsed : public vma::Policy {
 public:
  explicit MostUsed(double least) : least_(least) {}
  void on_tick(const vma::Snapshot& snapshot, vma::Plan& plan) override {
    for (const vma::ChunkId chunk : snapshot.changed()) {
      if (snapshot.chunk(chunk).moving) continue;
      vma::PlaceId at = snapshot.chunk(chunk).at, best = at;
      double most = std::max(least_, snapshot.heat(chunk, at).short_term());
      snapshot.for_each_user(chunk, [&](vma::PlaceId gpu, const vma::Heat& heat) {
        if (heat.short_term() > most) best = gpu, most = heat.short_term();
      });
      if (best != at) plan.move(chunk, best, most, "its greatest user");
    }
  }

 private:
  double least_;
};

bool run() {
  vma::PolicyKind kind{"most_used", "this file", {}, {}};
  kind.parameters = {{"least", vma::PolicyParameter::Type::size, 0, 0, 1e15, "bytes a second"}};
  kind.make = [](const auto& values) { return std::make_unique<MostUsed>(values["least"]); };
  vma::RuntimeOptions options;
  options.policies = {kind};
  options.policy = "most_used:least=1MiB";
  vma::Runtime runtime(options);
  constexpr std::size_t bytes = 16 << 20, tries = 10'000;
  void* data = runtime.alloc(bytes, vma::host(0), {.chunk_bytes = bytes / 4, .tag = "data"});
  auto* sum =
      static_cast<std::uint64_t*>(runtime.alloc(8, vma::gpu(0), {.tag = "sum", .movable = false}));
  const auto lies = [&] { return runtime.where(data).back().at; };
  const vma::Stream stream = runtime.make_stream(vma::gpu(0));
  for (std::size_t i = 0; i < tries && lies() != vma::gpu(0); ++i) {
    runtime.launch_recorded(stream, vma::read_kernel(), {1056}, {256},
                            vma::read_arguments(data, bytes, 1, sum));
    runtime.synchronize(stream);
  }
  for (const auto& line : runtime.explain(data)) fmt::print("{}\n", line);
  return lies() == vma::gpu(0);
}

}  // namespace

int main() try { return run() ? 0 : 1; } catch (const vma::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
