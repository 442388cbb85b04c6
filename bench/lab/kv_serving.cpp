// A loop as that of a server of language models, on all GPUs of a runtime: decoding steps that read
// the weights and the KV cache of all requests, and compute. It does a fixed amount of work, and
// reports its uses as any program would, to be recorded (VMART_RECORD) and predicted.
//
//     kv_serving [--policy TEXT] [--rounds N] [--steps N] [--stay]
//
// After each round of steps, the oldest requests of each GPU end and their blocks are freed; others
// go on at the next GPU, as those of a router that balances load: their blocks lie at the GPU
// before until the policy (cost_benefit) moves them. New ones come, and write the blocks of their
// prompts. With --stay, all go on where they are: the same work with all memory local. A GPU's
// requests are as long as those of any other. Prints one line of JSON.

#include "base/units.hpp"
#include "bench/harness/machine.hpp"
#include "support/read_kernel.hpp"
#include "support/test_kernels.hpp"

#include <vma/runtime.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace vma {
namespace {

/// How much there is of all.
struct Scale {
  std::uint64_t block_bytes = 64 * MiB, weights_bytes = 2 * GiB, weights_launch_bytes = 256 * MiB;
  std::size_t requests = 12, leaving = 4, going_over = 4;  // Of each GPU; of these after a round.
  std::size_t prompt_blocks = 4;                           // The shortest prompt.
  std::uint64_t compute_ns = 500'000;                      // A step.
  std::size_t rounds = 12, steps = 100, steps_a_block = 50;
  bool stay = false;

  void simulate() {
    block_bytes = weights_launch_bytes = 2 * MiB;
    weights_bytes = 4 * MiB;
    requests = 3;
    leaving = going_over = 1;
    prompt_blocks = 1;
  }
};

/// A request that is being decoded, and the blocks of its KV cache.
struct Request {
  std::vector<std::byte*> blocks;
};

/// One GPU, with its weights and its requests. Used by one thread at a time.
class Server {
 public:
  Server(Runtime& runtime, Place at, const Scale& scale)
      : runtime_(runtime), gpu_(at), scale_(scale) {
    stream_ = runtime.make_stream(at);
    attached_ = std::make_unique<AttachedStream>(runtime, stream_);
    sum_ = static_cast<std::uint64_t*>(
        runtime.alloc(sizeof *sum_, at, {.tag = "sum", .zeroed = true, .movable = false}));
    weights_ = static_cast<std::byte*>(
        runtime.alloc(scale.weights_bytes, at, {.tag = "weights", .zeroed = true}));
    const LaunchShape shape = read_shape();  // Kernels are loaded before the loop.
    runtime.launch(stream_, read_kernel(), shape.grid, shape.block,
                   read_arguments(sum_, 16, 1, sum_));
    runtime.launch(stream_, spin_kernel(), {1}, {1}, KernelArguments::of(std::uint64_t{1}));
    runtime.launch(stream_, fill_kernel(), {1}, {1},
                   KernelArguments::of(sum_, std::uint64_t{1}, std::uint64_t{0}));
    runtime.synchronize(stream_);
  }
  ~Server() {
    try {
      runtime_.step_scheduler();  // As in `end_oldest`.
      for (const Request& request : requests_) end(request);
      runtime_.synchronize(stream_);
      attached_.reset();
      runtime_.destroy_stream(stream_);
      runtime_.free(weights_);
      runtime_.free(sum_);
    } catch (const std::exception&) {  // The runtime takes back the rest.
    }
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Brings the requests to their full number, and decodes all of them.
  void run_round() {
    while (requests_.size() < scale_.requests) requests_.push_back(begin());
    for (std::size_t step = 0; step < scale_.steps; ++step) {
      if (step % scale_.steps_a_block == 0)
        for (Request& request : requests_) add_block(request);
      decode();
    }
  }
  /// The oldest requests end.
  void end_oldest() {
    // The scheduler drops uses of memory that is freed before it looks, and a recording with them.
    runtime_.step_scheduler();
    for (std::size_t i = 0; i < scale_.leaving; ++i) {
      end(requests_.front());
      requests_.pop_front();
    }
  }
  std::vector<Request> take_oldest() {
    const auto last = requests_.begin() + static_cast<std::ptrdiff_t>(scale_.going_over);
    std::vector<Request> taken(requests_.begin(), last);
    requests_.erase(requests_.begin(), last);
    return taken;
  }
  void give(const std::vector<Request>& requests) {
    requests_.insert(requests_.begin(), requests.begin(), requests.end());
  }

 private:
  Request begin() {
    Request request;
    const std::size_t blocks = scale_.prompt_blocks + begun_++ % 3 * scale_.prompt_blocks / 2;
    for (std::size_t i = 0; i < blocks; ++i) add_block(request);
    return request;
  }
  /// A block is written when it is made.
  void add_block(Request& request) {
    auto* const block = static_cast<std::byte*>(
        runtime_.alloc(scale_.block_bytes, gpu_, {.chunk_bytes = scale_.block_bytes, .tag = "kv"}));
    request.blocks.push_back(block);
    const Use use{block, scale_.block_bytes, gpu_, UseKind::write};
    const LaunchShape shape = read_shape();
    runtime_.launch_using(
        stream_, fill_kernel(), shape.grid, shape.block,
        KernelArguments::of(block, scale_.block_bytes / sizeof(std::uint64_t), std::uint64_t{1}),
        {&use, 1});
  }
  void end(const Request& request) {
    for (std::byte* const block : request.blocks) runtime_.free_async(block, stream_);
  }
  void read(const std::byte* begin, std::uint64_t bytes) {
    const LaunchShape shape = read_shape();
    const Use use{begin, bytes, gpu_};
    runtime_.launch_using(stream_, read_kernel(), shape.grid, shape.block,
                          read_arguments(begin, bytes, 1, sum_), {&use, 1});
  }
  /// The next tokens of all requests. Waits, as for the tokens.
  void decode() {
    for (std::uint64_t at = 0; at < scale_.weights_bytes; at += scale_.weights_launch_bytes)
      read(weights_ + at, scale_.weights_launch_bytes);
    for (const Request& request : requests_)
      for (const std::byte* block : request.blocks) read(block, scale_.block_bytes);
    runtime_.launch(stream_, spin_kernel(), {1}, {1}, KernelArguments::of(scale_.compute_ns));
    runtime_.synchronize(stream_);
  }

  Runtime& runtime_;
  const Place gpu_;
  const Scale& scale_;
  Stream stream_ = nullptr;
  std::unique_ptr<AttachedStream> attached_;
  std::uint64_t* sum_ = nullptr;
  std::byte* weights_ = nullptr;
  std::deque<Request> requests_;  // The oldest first.
  std::size_t begun_ = 0;
};

/// All GPUs, which begin each round together.
class Serving {
 public:
  Serving(Runtime& runtime, const Scale& scale) : scale_(scale) {
    for (const Place gpu : gpus_of(runtime))
      servers_.push_back(std::make_unique<Server>(runtime, gpu, scale));
  }

  void run() {
    for (std::size_t round = 0; round < scale_.rounds; ++round) {
      run_round();
      for (const auto& server : servers_) server->end_oldest();
      if (scale_.stay) continue;
      std::vector<std::vector<Request>> over;
      for (const auto& server : servers_) over.push_back(server->take_oldest());
      for (std::size_t i = 0; i < servers_.size(); ++i)
        servers_[(i + 1) % servers_.size()]->give(over[i]);
    }
  }

 private:
  void run_round() {
    std::vector<std::exception_ptr> failed(servers_.size());
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < servers_.size(); ++i) {
        threads.emplace_back([this, &failed, i] {
          try {
            servers_[i]->run_round();
          } catch (...) {
            failed[i] = std::current_exception();
          }
        });
      }
    }
    for (const std::exception_ptr& each : failed)
      if (each) std::rethrow_exception(each);
  }

  const Scale& scale_;
  std::vector<std::unique_ptr<Server>> servers_;
};

int run(Scale scale, const std::string& policy) {
  RuntimeOptions options;
  options.policy = policy;
  options.half_life = std::chrono::milliseconds(200);
  options.cache_bytes_per_gpu = 16 * GiB;
  Runtime runtime(options);
  if (runtime.description().starts_with("simulated")) scale.simulate();
  for (const Place gpu : gpus_of(runtime))
    runtime.reserve(gpu, 12 * scale.requests * scale.block_bytes, scale.block_bytes);
  const auto begin = std::chrono::steady_clock::now();
  {
    Serving serving(runtime, scale);
    serving.run();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const SchedulerStats stats = runtime.scheduler_stats();
  fmt::print(R"({{"seconds":{:.6f},"steps":{},"moves":{},"moves_failed":{},"uses_lost":{}}})"
             "\n",
             took.count(), scale.rounds * scale.steps, stats.moves_done, stats.moves_failed,
             stats.uses_lost);
  return 0;
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) try {
  vma::Scale scale;
  std::string policy = "cost_benefit";
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (std::strcmp(argv[i], "--stay") == 0) {
      scale.stay = true;
    } else if (std::strcmp(argv[i], "--policy") == 0 && has_value) {
      policy = argv[++i];
    } else if (std::strcmp(argv[i], "--rounds") == 0 && has_value) {
      scale.rounds = std::stoul(argv[++i]);
    } else if (std::strcmp(argv[i], "--steps") == 0 && has_value) {
      scale.steps = std::stoul(argv[++i]);
    } else {
      fmt::print(stderr, "kv_serving [--policy TEXT] [--rounds N] [--steps N] [--stay]\n");
      return 2;
    }
  }
  return vma::run(scale, policy);
} catch (const std::exception& error) {
  fmt::print(stderr, "kv_serving: {}\n", error.what());
  return 1;
}
