// Steps through the life of an idle runtime, and after each step prints what the runtime itself
// holds. The caller measures the GPUs' used memory from outside at the same time. With `--wait`,
// each step waits for a line on standard input. `contexts` only opens CUDA contexts, for
// comparison.

#include "runtime/runtime_parts.hpp"
#include "runtime/settings.hpp"

#include <vma/runtime.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <string>

namespace vma {
namespace {

bool waits = false;

/// Prints one line of JSON and, if requested, waits for a line of input.
void step(const std::string& name, const Runtime* runtime) {
  std::string places;
  if (runtime != nullptr) {
    for (const RuntimeStats::Place& place : runtime->stats().places) {
      if (!places.empty()) places += ", ";
      places += fmt::format(
          R"("{}": {{"own_bytes": {}, "cached_bytes": {}, "allocated_bytes": {}}})",
          to_string(place.at), place.own_bytes, place.cached_bytes, place.allocated_bytes);
    }
  }
  fmt::print("{{\"step\": \"{}\", \"places\": {{{}}}}}\n", name, places);
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
  const Location first = runtime.locations().front();
  const Location second = runtime.locations().at(1);
  void* const pointer = runtime.alloc(1, first);
  step("alloc on " + to_string(first), &runtime);
  runtime.migrate(pointer, second);
  step("migrate to " + to_string(second), &runtime);
  runtime.free(pointer);
  for (const Location& at : runtime.locations()) runtime.trim(at);
  step("free and trim", &runtime);
  runtime.shutdown();
  step("shutdown", nullptr);
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  bool contexts = false;
  for (int index = 1; index < argc; ++index) {
    if (std::strcmp(argv[index], "--wait") == 0) vma::waits = true;
    if (std::strcmp(argv[index], "contexts") == 0) contexts = true;
  }
  try {
    contexts ? vma::run_contexts() : vma::run_runtime();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
