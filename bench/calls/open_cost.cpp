// Steps through the life of a runtime, and after each step prints a line of JSON: how long it took,
// and what the runtime itself holds. The caller measures the GPUs' used memory from outside at the
// same time. With `--wait`, each step waits for a line on standard input.
//
//   open_cost [runtime]         an idle runtime of a program without CUDA contexts
//   open_cost contexts          opens CUDA contexts only, for comparison
//   open_cost first_move WHAT   the first moves of 256 MiB of a process that has a context on two
//                               GPUs: WHAT is sync (between GPUs), live (beside a busy stream) or
//                               host (to the host and back). With `--calls` each step also names
//                               the driver calls that took longest.

#include "bench/harness/samples.hpp"
#include "runtime/runtime_parts.hpp"
#include "runtime/settings.hpp"
#include "support/drivers/trace_driver.hpp"
#include "support/test_kernels.hpp"

#include <vma/runtime.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vma {
namespace {

bool waits = false;
bool names_calls = false;
TraceDriver* trace = nullptr;  // Owned by the runtime; null unless calls are named.

std::string places_of(const Runtime& runtime) {
  std::string places;
  for (const RuntimeStats::PlaceStats& place : runtime.stats().places) {
    if (!places.empty()) places += ", ";
    places += fmt::format(R"("{}": {{"own_bytes": {}, "cached_bytes": {}, "allocated_bytes": {}}})",
                          to_string(place.at), place.own_bytes, place.cached_bytes,
                          place.allocated_bytes);
  }
  return places;
}

/// The calls since the last step that took longest in all, as "name": [count, milliseconds].
std::string longest_calls() {
  constexpr std::size_t named_max = 12;
  if (trace == nullptr) return "";
  std::map<std::string_view, std::pair<int, TimePoint>> sums;
  for (const TracedCall& call : trace->calls()) {
    auto& [count, time] = sums[to_string(call.call)];
    ++count;
    time += call.duration;
  }
  trace->clear();
  std::vector<std::pair<std::string_view, std::pair<int, TimePoint>>> sorted(sums.begin(),
                                                                             sums.end());
  std::ranges::sort(sorted, std::greater(), [](const auto& entry) { return entry.second.second; });
  sorted.resize(std::min(sorted.size(), named_max));
  std::string text;
  for (const auto& [name, sum] : sorted) {
    text += fmt::format(R"({}"{}": [{}, {:.3f}])", text.empty() ? "" : ", ", name, sum.first,
                        static_cast<double>(sum.second.count()) / 1e6);
  }
  return fmt::format(R"(, "calls": {{{}}})", text);
}

/// Prints one line of JSON and, if requested, waits for a line of input.
void step(const std::string& name, const Runtime* runtime,
          std::optional<TimePoint> took = std::nullopt) {
  const std::string time =
      took ? fmt::format(R"(, "ms": {:.3f})", static_cast<double>(took->count()) / 1e6) : "";
  fmt::print("{{\"step\": \"{}\"{}{}, \"places\": {{{}}}}}\n", name, time, longest_calls(),
             runtime == nullptr ? "" : places_of(*runtime));
  std::fflush(stdout);
  std::string answer;
  if (waits) std::getline(std::cin, answer);
}

void run_contexts() {
  step("before", nullptr);
  const std::unique_ptr<Driver> driver = open_driver(resolve_settings({}).driver);
  for (int device = 0; device < driver->device_count(); ++device) {
    driver->retain_primary(DeviceId{device});
    step(fmt::format("context on gpu({})", device), nullptr);
  }
  for (int device = 0; device < driver->device_count(); ++device) {
    driver->release_primary(DeviceId{device});
  }
}

void run_runtime() {
  step("before", nullptr);
  Runtime runtime;
  step("open", &runtime);
  const Place first = runtime.places().front();
  const Place second = runtime.places().at(1);
  void* const pointer = runtime.alloc(1, first);
  step("alloc on " + to_string(first), &runtime);
  runtime.migrate(pointer, second);
  step("migrate to " + to_string(second), &runtime);
  runtime.free(pointer);
  for (const Place& at : runtime.places()) runtime.trim(at);
  step("free and trim", &runtime);
  runtime.shutdown();
  step("shutdown", nullptr);
}

/// Launches kernels of a millisecond on one stream, a few ahead of the GPU, until it is destroyed.
class BusyStream {
 public:
  BusyStream(Runtime& runtime, Driver& driver, Stream stream)
      : task_(driver.executor().spawn("busy stream", [this, &runtime, stream] {
          constexpr int ahead = 4;
          while (!stop_) {
            for (int i = 0; i < ahead; ++i) {
              runtime.launch(stream, spin_kernel(), {}, {},
                             KernelArguments::of(std::uint64_t{1'000'000}));
            }
            runtime.synchronize(stream);
            ++rounds_;
          }
        })) {
    Poll poll;
    while (rounds_ == 0) poll.pause();  // It has loaded its kernel.
  }
  ~BusyStream() {
    stop_ = true;
    task_->join();
  }
  BusyStream(const BusyStream&) = delete;
  BusyStream& operator=(const BusyStream&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> rounds_{0};
  std::unique_ptr<Task> task_;
};

/// A process whose program has a context on two GPUs and 256 MiB on the first.
class FirstMoves {
 public:
  FirstMoves() {
    step("before", nullptr);
    const Settings settings = resolve_settings({});
    std::unique_ptr<Driver> driver = open_driver(settings.driver);
    if (names_calls) {
      auto traced = std::make_unique<TraceDriver>(std::move(driver), std::size_t{1} << 16);
      trace = traced.get();
      driver = std::move(traced);
    }
    runtime_ = unique_runtime_of(std::make_unique<RuntimeParts>(std::move(driver), settings));
    step("open", runtime_.get());
    for (const Place at : {gpu(0), gpu(1)}) streams_.push_back(runtime_->make_stream(at));
    step("contexts of the program", runtime_.get());
    memory_ = runtime_->alloc(bytes(), gpu(0));
    for (const Place at : {gpu(1), host(0)}) runtime_->reserve(at, bytes());
    step("alloc and reserve", runtime_.get());
  }
  ~FirstMoves() {
    runtime_->free(memory_);
    for (const Place& at : runtime_->places()) runtime_->trim(at);
    step("free and trim", runtime_.get());
    for (const Stream stream : streams_) runtime_->destroy_stream(stream);
    trace = nullptr;
    runtime_.reset();
  }
  FirstMoves(const FirstMoves&) = delete;
  FirstMoves& operator=(const FirstMoves&) = delete;

  void sync() {
    for (const char* which : {"first", "second"}) {
      move(fmt::format("{} move", which), gpu(1));
      move(fmt::format("{} move back", which), gpu(0));
    }
  }
  void to_the_host() {
    for (const char* which : {"first", "second"}) {
      move(fmt::format("{} move to the host", which), host(0));
      move(fmt::format("{} move from the host", which), gpu(0));
    }
  }
  void live() {
    Driver& driver = *parts_of(*runtime_).driver;
    const AttachedStream attached(*runtime_, streams_.front());
    const BusyStream busy(*runtime_, driver, streams_.front());
    trace != nullptr ? trace->clear() : void();
    for (const char* which : {"first", "second"}) {
      timed(fmt::format("{} live move", which),
            [&] { runtime_->migrate_async(memory_, gpu(1)).wait(); });
      runtime_->migrate(memory_, gpu(0));
    }
    timed("first live move to the host", [&] { runtime_->migrate_async(memory_, host(0)).wait(); });
    timed("first live move from the host",
          [&] { runtime_->migrate_async(memory_, gpu(0)).wait(); });
  }

 private:
  static std::size_t bytes() {
    constexpr std::size_t size_bytes = 256 << 20;
    return std::min<std::size_t>(size_bytes, bytes_max());
  }
  template <typename Body>
  void timed(const std::string& name, Body&& body) {
    Clock& clock = parts_of(*runtime_).driver->clock();
    const TimePoint start = clock.now();
    body();
    step(name, runtime_.get(), clock.now() - start);
  }
  void move(const std::string& name, Place to) {
    timed(name, [&] { runtime_->migrate(memory_, to); });
  }

  std::unique_ptr<Runtime> runtime_;
  std::vector<Stream> streams_;
  void* memory_ = nullptr;
};

void run_first_moves(const std::string& what) {
  FirstMoves moves;
  if (what == "sync") return moves.sync();
  if (what == "host") return moves.to_the_host();
  if (what == "live") return moves.live();
  throw std::invalid_argument("first_move takes sync, live or host");
}

void run(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] == "runtime") return run_runtime();
  if (arguments[0] == "contexts") return run_contexts();
  if (arguments[0] == "first_move" && arguments.size() == 2) return run_first_moves(arguments[1]);
  throw std::invalid_argument("usage: open_cost [runtime | contexts | first_move WHAT]");
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int index = 1; index < argc; ++index) {
    const std::string argument = argv[index];
    if (argument == "--wait") {
      vma::waits = true;
    } else if (argument == "--calls") {
      vma::names_calls = true;
    } else {
      arguments.push_back(argument);
    }
  }
  try {
    vma::run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
