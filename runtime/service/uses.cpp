// What programs say of their use of memory. To record goes past the door of the runtime, which is a
// mutex; the log itself knows when it is closed.
#include <vma/runtime.hpp>

#include "service/checks.hpp"
#include "service/runtime_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace vma {
namespace {

void check_hint(const Hint& hint, const Topology& topology, const char* call) {
  topology.require(hint.device, call);
  const auto refuse = [&](const std::string& reason) {
    throw Error(ErrorKind::invalid_argument, call, reason);
  };
  const std::chrono::nanoseconds now{0};
  if (hint.device.kind != Location::Kind::gpu) {
    refuse(fmt::format("hint.device is {}, which uses nothing", to_string(hint.device)));
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

/// All of every allocation that a word points into, each once.
std::vector<Use> uses_of(std::span<const std::uint64_t> words, const Registry& registry,
                         Location device) {
  std::vector<Use> uses;
  for (const std::uint64_t word : words) {
    const auto found = registry.find(Address{word});
    const auto bounds = found ? registry.bounds(found->id) : std::nullopt;
    if (!bounds || !bounds->contains(Address{word})) continue;
    const void* begin = to_pointer(bounds->begin);
    if (std::ranges::find(uses, begin, &Use::address) != uses.end()) continue;
    uses.push_back({begin, bounds->size_bytes, device, UseKind::read_write});
  }
  return uses;
}

/// The words of a launch's parameters that can be pointers: whole, and aligned as the kernel sees
/// them. Throws: Error{invalid_argument} where the launch cannot have had them.
std::vector<std::uint64_t> words_of(std::span<const ParameterInfo> infos,
                                    const void* const* parameters, const char* call) {
  constexpr std::size_t word_bytes = sizeof(std::uint64_t);
  std::vector<std::uint64_t> words;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    if (parameters == nullptr || parameters[i] == nullptr) {
      throw Error(ErrorKind::invalid_argument, call,
                  parameters == nullptr ? std::string("parameters is null")
                                        : fmt::format("parameters[{}] is null", i));
    }
    // Where a parameter is not aligned to words, no member of it is one.
    if (infos[i].offset_bytes % word_bytes != 0 || infos[i].size_bytes < word_bytes) continue;
    const std::size_t begin = words.size();
    words.resize(begin + infos[i].size_bytes / word_bytes);
    std::memcpy(&words[begin], parameters[i], (words.size() - begin) * word_bytes);
  }
  return words;
}

}  // namespace

inline namespace v1 {

void Runtime::record_use(const void* address, std::size_t bytes, Location device,
                         UseKind kind) noexcept {
  parts_->uses->record({address, bytes, device, kind});
}

void Runtime::record_uses(std::span<const Use> uses) noexcept {
  parts_->uses->record(uses);
}

void Runtime::advise(const void* address, std::size_t bytes, const Hint& hint) {
  constexpr const char* call = "vma::advise";
  const Parts::Entry entry(*parts_, call);
  const std::shared_ptr<Allocation> allocation = entry->memory.require_around(address, call);
  check_usable(*allocation, call);
  const Address begin = address_of(address);
  slots_of(*allocation, begin - allocation->begin(), bytes, call);
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
  const Parts::Entry entry(*parts_, "vma::launch_recorded");
  // First, so that nothing fails once the kernel is enqueued.
  const ContextHandle context = entry->launcher.bind(stream).context;
  const Location device = gpu(index(parts_->driver->context_device(context)));
  launch_using(stream, kernel, grid, block, arguments,
               uses_of(arguments.words(), entry->memory.registry(), device));
}

void Runtime::record_launch(const void* function, const void* const* parameters, Location device) {
  constexpr const char* call = "vma::record_launch";
  const Parts::Entry entry(*parts_, call);
  entry->topology.require(device, call);
  if (device.kind != Location::Kind::gpu || function == nullptr) {
    throw Error(ErrorKind::invalid_argument, call,
                fmt::format("function {} on {}", function, to_string(device)));
  }
  const std::vector<ParameterInfo> infos = parts_->driver->kernel_parameters(function);
  record_uses(uses_of(words_of(infos, parameters, call), entry->memory.registry(), device));
}

}  // namespace v1
}  // namespace vma
