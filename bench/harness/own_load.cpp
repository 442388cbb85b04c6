#include "bench/harness/own_load.hpp"

#include "bench/harness/load_threads.hpp"
#include "bench/harness/machine.hpp"

#include <array>
#include <atomic>
#include <stdexcept>

namespace vma {
namespace {

constexpr unsigned words = 256;
constexpr int launches_a_wait = 32;

// Each thread increments its word.
const Kernel add_one{
    R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry vmart_bench_add_one(.param .u64 words)
{
  .reg .b32 %r<5>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [words];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  mul.wide.u32 %rd3, %r4, 8;
  add.u64 %rd4, %rd2, %rd3;
  ld.global.u64 %rd5, [%rd4];
  add.u64 %rd5, %rd5, 1;
  st.global.u64 [%rd4], %rd5;
  ret;
}
)",
    "vmart_bench_add_one",
    [](DeviceView& view, const KernelArguments& arguments, LaunchShape shape) {
      auto* const word = arguments.at<std::uint64_t*>(0);
      for (unsigned index = 0; index < shape.grid.x * shape.block.x; ++index) {
        view.store(word + index, view.load(word + index) + 1);
      }
    }};

}  // namespace

struct OwnLoad::State {
  Runtime& runtime;
  std::atomic<std::uint64_t> launches{0};
  LoadThreads threads;

  explicit State(Runtime& shared) : runtime(shared) {}

  void launch_until_stopped(Place gpu) {
    const Stream stream = runtime.make_stream(gpu);
    AllocOptions options;
    options.movable = false;
    options.tag = "load";
    auto* const begin =
        static_cast<std::uint64_t*>(runtime.alloc(words * sizeof(std::uint64_t), gpu, options));
    std::array<std::uint64_t, words> seen{};
    runtime.write(begin, std::as_bytes(std::span(seen)));
    std::uint64_t launched = 0;
    while (!threads.stopping()) {
      for (int launch = 0; launch < launches_a_wait; ++launch) {
        runtime.launch(stream, add_one, Dim3{1}, Dim3{words}, KernelArguments::of(begin));
        ++launched;
        ++launches;
      }
      runtime.synchronize(stream);
    }
    runtime.read(begin, std::as_writable_bytes(std::span(seen)));
    runtime.destroy_stream(stream);
    runtime.free(begin);
    for (const std::uint64_t word : seen) {
      if (word != launched) throw std::runtime_error("launches were lost or ran twice");
    }
  }
};

OwnLoad::OwnLoad(Runtime& runtime) : state_(std::make_unique<State>(runtime)) {
  State* const state = state_.get();
  for (const Place gpu : gpus_of(runtime))
    state->threads.spawn("load_launch", [state, gpu] { state->launch_until_stopped(gpu); });
}

OwnLoad::~OwnLoad() = default;

void OwnLoad::stop() {
  state_->threads.stop();
}

std::uint64_t OwnLoad::launches() const {
  return state_->launches;
}

}  // namespace vma
