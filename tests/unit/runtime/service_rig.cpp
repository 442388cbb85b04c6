#include "unit/runtime/service_rig.hpp"

#include "machine/machine_file.hpp"
#include "support/test_kernels.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <span>

namespace vma {

ServiceRig::ServiceRig(const std::string& machine, RuntimeOptions options)
    : machine_(load_machine(machine)) {
  auto trace = std::make_unique<TraceDriver>(machine_, 100'000);
  trace_ = trace.get();
  if (!options.prepare) options.prepare = false;  // As `RuntimeRig`.
  runtime_ = unique_runtime_of(
      std::make_unique<RuntimeParts>(std::move(trace), resolve_settings(options)));
  for (const Place at : runtime_->places()) {
    if (at.kind == Place::Kind::gpu) streams_.push_back(runtime_->make_stream(at));
  }
  mismatches_ = static_cast<std::uint64_t*>(runtime_->alloc(page, host(0)));
}

ServiceRig::~ServiceRig() {
  runtime_.reset();
  for (const std::string& left : machine_.leaks()) ADD_FAILURE() << "left behind: " << left;
}

void ServiceRig::fill_on(int gpu, void* pointer, std::uint64_t bytes, std::uint64_t seed) {
  runtime_->launch(stream(gpu), fill_kernel(), {}, {},
                   KernelArguments::of(pointer, bytes / 8, seed));
  runtime_->synchronize(stream(gpu));
}

std::uint64_t ServiceRig::wrong_on(int gpu, void* pointer, std::uint64_t bytes,
                                   std::uint64_t seed) {
  std::uint64_t count = 0;
  runtime_->write(mismatches_, std::as_bytes(std::span(&count, 1)));
  runtime_->launch(stream(gpu), compare_kernel(), {}, {},
                   KernelArguments::of(pointer, bytes / 8, seed, mismatches_));
  runtime_->synchronize(stream(gpu));
  runtime_->read(mismatches_, std::as_writable_bytes(std::span(&count, 1)));
  return count;
}

void ServiceRig::write(void* pointer, std::uint64_t bytes, std::uint64_t seed) {
  std::vector<std::uint64_t> words(bytes / 8);
  std::iota(words.begin(), words.end(), seed);
  runtime_->write(pointer, std::as_bytes(std::span(words)));
}

std::uint64_t ServiceRig::wrong(const void* pointer, std::uint64_t bytes, std::uint64_t seed) {
  std::vector<std::uint64_t> words(bytes / 8);
  runtime_->read(pointer, std::as_writable_bytes(std::span(words)));
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < words.size(); ++i) wrong += words[i] != seed + i;
  return wrong;
}

void ServiceRig::check_invariants() {
  check_settled(parts_of(*runtime_).machinery->memory);
}

}  // namespace vma
