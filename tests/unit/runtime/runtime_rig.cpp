#include "unit/runtime/runtime_rig.hpp"

#include "machine/machine_file.hpp"
#include "runtime/runtime_parts.hpp"
#include "support/test_kernels.hpp"
#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

Runtime open(const std::string& machine, RuntimeOptions options, SimDriver*& opened) {
  options.driver = "sim:" + machine;
  if (!options.prepare) options.prepare = false;  // Which stop serves a move depends on no thread.
  auto driver = std::make_unique<SimDriver>(load_machine(machine));
  opened = driver.get();
  return runtime_of(std::make_unique<RuntimeParts>(std::move(driver), resolve_settings(options)));
}

}  // namespace

RuntimeOptions patient() {
  RuntimeOptions options;
  options.gate_limit = std::chrono::seconds(1);
  return options;
}

RuntimeOptions without_suspension(RuntimeOptions options) {
  options.suspend = false;
  return options;
}

RuntimeRig::RuntimeRig(const std::string& machine, RuntimeOptions options)
    : runtime_(open(machine, std::move(options), machine_)) {
  for (const Place at : runtime_.places()) {
    if (at.kind == Place::Kind::gpu) streams_.push_back(runtime_.make_stream(at));
  }
  // The first launch of a kernel waits for all work of its context, so do that before a test stops
  // any.
  mismatches_ = alloc(8, host(0));
  std::uint64_t* word = alloc(8, host(0));
  for (int gpu = 0; gpu < gpus(); ++gpu) {
    fill_by(gpu, word, 1, 0);
    wrong_for(gpu, word, 1, 0);
    runtime_.launch(stream(gpu), add_kernel(), {}, {},
                    KernelArguments::of(word, std::uint64_t{1}, std::uint64_t{1}));
    runtime_.launch(stream(gpu), Kernel{"", "spin", {}}, {}, {},
                    KernelArguments::of(std::uint64_t{1}));
    runtime_.synchronize(stream(gpu));
  }
  runtime_.free(word);
  runtime_.trim(host(0));
}

std::uint64_t* RuntimeRig::alloc(std::uint64_t bytes, Place at, std::uint64_t chunk_bytes) {
  AllocOptions options;
  options.chunk_bytes = chunk_bytes;
  return static_cast<std::uint64_t*>(runtime_.alloc(bytes, at, options));
}

void RuntimeRig::fill_by(int gpu, std::uint64_t* words, std::uint64_t count, std::uint64_t seed) {
  runtime_.launch(stream(gpu), fill_kernel(), {}, {}, KernelArguments::of(words, count, seed));
  runtime_.synchronize(stream(gpu));
}

std::uint64_t RuntimeRig::wrong_for(int gpu, std::uint64_t* words, std::uint64_t count,
                                    std::uint64_t seed) {
  std::uint64_t wrong = 0;
  runtime_.write(mismatches_, std::as_bytes(std::span(&wrong, 1)));
  runtime_.launch(stream(gpu), compare_kernel(), {}, {},
                  KernelArguments::of(words, count, seed, mismatches_));
  runtime_.synchronize(stream(gpu));
  runtime_.read(mismatches_, std::as_writable_bytes(std::span(&wrong, 1)));
  return wrong;
}

std::uint64_t RuntimeRig::wrong(const std::uint64_t* words, std::uint64_t count,
                                std::uint64_t seed) {
  std::vector<std::uint64_t> bytes(count);
  runtime_.read(words, std::as_writable_bytes(std::span(bytes)));
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < count; ++i) wrong += bytes[i] != seed + i;
  return wrong;
}

void RuntimeRig::write(std::uint64_t* words, std::uint64_t count, std::uint64_t seed) {
  std::vector<std::uint64_t> bytes(count);
  for (std::uint64_t i = 0; i < count; ++i) bytes[i] = seed + i;
  runtime_.write(words, std::as_bytes(std::span(bytes)));
}

Place RuntimeRig::place(const void* pointer) {
  const std::vector<Extent> extents = runtime_.where(pointer);
  EXPECT_EQ(extents.size(), 1u);
  return extents.at(0).at;
}

void RuntimeRig::check_invariants() {
  check_settled(parts_of(runtime_).machinery->memory);
}

ErrorKind kind_of_error(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_FALSE(error.call().empty());
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::unsupported;
}

std::string error_text(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace vma
