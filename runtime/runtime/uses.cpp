// What programs report about their use of memory. Recording bypasses the door of the runtime, which
// is a mutex; the log itself knows when it is closed.
#include <vma/runtime.hpp>

#include "runtime/argument_checks.hpp"
#include "runtime/runtime_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory_resource>
#include <vector>

namespace vma {
namespace {

void check_hint(const Hint& hint, const Topology& topology, const char* call) {
  topology.require(hint.device, call);
  const auto refuse = [&](const std::string& reason) {
    throw Error(ErrorKind::invalid_argument, call, reason);
  };
  const std::chrono::nanoseconds now{0};
  if (hint.device.kind != Place::Kind::gpu) {
    refuse(fmt::format("hint.device is {}, which is not a GPU of the runtime",
                       to_string(hint.device)));
  }
  if (!std::isfinite(hint.passes) || hint.passes < 0) {
    refuse(fmt::format("hint.passes is {}", hint.passes));
  }
  if (hint.next_use && *hint.next_use < now) {
    refuse(fmt::format("hint.next_use is {} ns from now", hint.next_use->count()));
  }
  if (hint.until && *hint.until < now) {
    refuse(fmt::format("hint.until is {} ns from now", hint.until->count()));
  }
}

/// What words point to in allocations, each address once. How far that reaches is found where uses
/// are read (`KnownStarts`), since a launch has no time for it.
class UsesFound {
 public:
  UsesFound(const Registry& registry, Place device) : registry_(registry), device_(device) {
    uses_.reserve(usual_count);
  }
  UsesFound(const UsesFound&) = delete;
  UsesFound& operator=(const UsesFound&) = delete;

  void look_at(std::uint64_t word) {
    const void* const address = to_pointer(Address{word});
    const auto is_same = [address](const Use& use) { return use.address == address; };
    if (!registry_.find(Address{word}) || std::ranges::any_of(uses_, is_same)) return;
    uses_.push_back({address, 0, device_, UseKind::unknown});
  }

  std::span<const Use> uses() const { return uses_; }
  std::size_t copy_to(std::span<Use> out) const {
    std::copy_n(uses_.begin(), std::min(out.size(), uses_.size()), out.begin());
    return uses_.size();
  }

 private:
  static constexpr std::size_t usual_count = 12;

  const Registry& registry_;
  const Place device_;
  // Enough on the stack for usual launches.
  alignas(Use) std::array<std::byte, usual_count * sizeof(Use)> room_;
  std::pmr::monotonic_buffer_resource memory_{room_.data(), room_.size()};
  std::pmr::vector<Use> uses_{&memory_};
};

/// Throws: Error{invalid_argument} if the launch cannot have had such parameters.
void require_all(std::size_t count, const void* const* parameters, const char* call) {
  for (std::size_t i = 0; i < count; ++i) {
    if (parameters != nullptr && parameters[i] != nullptr) continue;
    throw Error(ErrorKind::invalid_argument, call,
                parameters == nullptr ? std::string("parameters is null")
                                      : fmt::format("parameters[{}] is null", i));
  }
}

/// Examines the words of a parameter that can be pointers: whole, and aligned for the kernel.
void look_through(const ParameterInfo& info, const void* parameter, UsesFound& found) {
  constexpr std::size_t word_bytes = sizeof(std::uint64_t);
  // If a parameter is not aligned to words, none of its members is.
  if (info.offset_bytes % word_bytes != 0) return;
  for (std::size_t at = 0; at + word_bytes <= info.size_bytes; at += word_bytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(parameter) + at, word_bytes);
    found.look_at(word);
  }
}

void require_launch(const Topology& topology, const void* function, Place device,
                    const char* call) {
  topology.require(device, call);
  if (device.kind == Place::Kind::gpu && function != nullptr) return;
  throw Error(ErrorKind::invalid_argument, call,
              fmt::format("function {} on {}", function, to_string(device)));
}

void look_at_launch(Machinery& parts, const void* function, const void* const* parameters,
                    Place device, UsesFound& found, const char* call) {
  require_launch(parts.topology, function, device, call);
  const KernelParameters* const known = parts.kernels.parameters_of(function);
  if (known == nullptr) return;  // The thread is ending, and has no ring for uses either.
  require_all(known->list.size(), parameters, call);
  for (std::size_t i = 0; i < known->list.size(); ++i) {
    look_through(known->list[i], parameters[i], found);
  }
}

void look_at_launch(Machinery& parts, const void* function, std::span<const std::byte> block,
                    Place device, UsesFound& found, const char* call) {
  require_launch(parts.topology, function, device, call);
  const KernelParameters* const known = parts.kernels.parameters_of(function);
  if (known == nullptr) return;
  const std::size_t needed =
      known->list.empty() ? 0 : known->list.back().offset_bytes + known->list.back().size_bytes;
  if (block.size() < needed) {
    throw Error(ErrorKind::invalid_argument, call,
                fmt::format("the block has {} bytes, but the kernel's parameters take {}",
                            block.size(), needed));
  }
  for (const ParameterInfo& info : known->list) {
    look_through(info, block.data() + info.offset_bytes, found);
  }
}

}  // namespace

inline namespace v1 {

void Runtime::record_use(const void* address, std::size_t bytes, Place device,
                         UseKind kind) noexcept {
  parts_->uses->record({address, bytes, device, kind});
}

void Runtime::record_uses(std::span<const Use> uses) noexcept {
  parts_->uses->record(uses);
}

void Runtime::advise(const void* address, std::size_t bytes, const Hint& hint) {
  constexpr const char* call = "vma::advise";
  const RuntimeParts::Entry entry(*parts_, call);
  const std::shared_ptr<Allocation> allocation = entry->memory.require_around(address, call);
  check_usable(*allocation, call);
  const Address begin = address_of(address);
  slots_of(*allocation, address, 0, bytes, call);
  check_hint(hint, entry->topology, call);
  parts_->uses->advise({begin, bytes, hint, parts_->driver->clock().now()});
}

void Runtime::launch_using(Stream stream, const Kernel& kernel, Dim3 grid, Dim3 block,
                           const KernelArguments& arguments, std::span<const Use> uses) {
  launch(stream, kernel, grid, block, arguments);
  record_uses(uses);
}

void Runtime::launch_recorded(Stream stream, const Kernel& kernel, Dim3 grid, Dim3 block,
                              const KernelArguments& arguments) {
  const RuntimeParts::Entry entry(*parts_, "vma::launch_recorded");
  // First, so that nothing fails once the kernel is enqueued.
  const ContextHandle context = entry->launcher.bind(stream).context;
  const Place device = gpu(index(parts_->driver->context_device(context)));
  UsesFound found(entry->memory.registry(), device);
  for (const std::uint64_t word : arguments.words()) found.look_at(word);
  launch_using(stream, kernel, grid, block, arguments, found.uses());
}

void Runtime::record_launch(const void* function, const void* const* parameters, Place device) {
  const RuntimeParts::Entry entry(*parts_, "vma::record_launch");
  UsesFound found(entry->memory.registry(), device);
  look_at_launch(*entry, function, parameters, device, found, "vma::record_launch");
  record_uses(found.uses());
}

void Runtime::record_launch(const void* function, std::span<const std::byte> block, Place device) {
  const RuntimeParts::Entry entry(*parts_, "vma::record_launch");
  UsesFound found(entry->memory.registry(), device);
  look_at_launch(*entry, function, block, device, found, "vma::record_launch");
  record_uses(found.uses());
}

std::size_t Runtime::launch_uses(const void* function, const void* const* parameters, Place device,
                                 std::span<Use> out) {
  const RuntimeParts::Entry entry(*parts_, "vma::launch_uses");
  UsesFound found(entry->memory.registry(), device);
  look_at_launch(*entry, function, parameters, device, found, "vma::launch_uses");
  return found.copy_to(out);
}

std::size_t Runtime::launch_uses(const void* function, std::span<const std::byte> block,
                                 Place device, std::span<Use> out) {
  const RuntimeParts::Entry entry(*parts_, "vma::launch_uses");
  UsesFound found(entry->memory.registry(), device);
  look_at_launch(*entry, function, block, device, found, "vma::launch_uses");
  return found.copy_to(out);
}

void Runtime::forget_kernels() {
  const RuntimeParts::Entry entry(*parts_, "vma::forget_kernels");
  KnownKernels::forget();
}

}  // namespace v1
}  // namespace vma
