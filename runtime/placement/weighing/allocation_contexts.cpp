#include "placement/weighing/allocation_contexts.hpp"

#include "base/units.hpp"

#include <algorithm>
#include <utility>

namespace vma::inline v1 {
namespace {

constexpr std::size_t contexts_max = std::size_t{1} << 16;  // Of one generation.
constexpr double age_least_s = 1e-3;                        // Uses are reported once a millisecond.
constexpr double passes_unseen = 2;                         // Written once and read once.

/// FNV-1a by words, finished as splitmix64 is.
std::uint64_t mix(std::uint64_t sum, std::uint64_t word) {
  sum = (sum ^ word) * 1099511628211u;
  sum ^= sum >> 30;
  sum *= 0xbf58476d1ce4e5b9u;
  return sum ^ (sum >> 27);
}

std::uint64_t signature(const AllocRequest& request) {
  std::uint64_t sum = mix(14695981039346656037u, request.bytes);
  sum = mix(sum, index(request.device));
  for (const char letter : request.tag) sum = mix(sum, static_cast<unsigned char>(letter));
  return sum;
}

}  // namespace

AllocationContexts::Keys AllocationContexts::see(const AllocRequest& request) {
  constexpr std::size_t most = lengths.back();
  if (requests_.size() < most) {
    requests_.push_back(signature(request));
  } else {
    requests_[next_ % most] = signature(request);
  }
  ++next_;
  Keys keys;
  std::uint64_t sum = 0;
  std::size_t taken = 0;
  for (const std::size_t length : lengths) {
    if (length > requests_.size()) break;
    for (; taken < length; ++taken) sum = mix(sum, requests_[(next_ - 1 - taken) % most]);
    keys.of_length[keys.count++] = mix(sum, length);
  }
  return keys;
}

const AllocationContexts::Context* AllocationContexts::find(std::uint64_t key) const {
  for (const Contexts* contexts : {&newer_, &older_}) {
    const auto found = contexts->find(key);
    if (found != contexts->end()) return &found->second;
  }
  return nullptr;
}

AllocationContexts::Context& AllocationContexts::at(std::uint64_t key) {
  const auto found = newer_.find(key);
  if (found != newer_.end()) return found->second;
  if (newer_.size() >= contexts_max) {
    older_ = std::move(newer_);
    newer_.clear();
  }
  const auto before = older_.find(key);
  const Context known = before == older_.end() ? Context{} : before->second;
  return newer_.emplace(key, known).first->second;
}

std::optional<Lifetime> AllocationContexts::expected(const Keys& keys, Time now) const {
  for (std::size_t i = keys.count; i-- > 0;) {
    const Context* context = find(keys.of_length[i]);
    if (context == nullptr) continue;
    if (context->known) return context->last;
    const double age = in_seconds(now - context->begun);
    return Lifetime{2 * age, passes_unseen / std::max(age, age_least_s)};
  }
  return std::nullopt;
}

void AllocationContexts::begun(const Keys& keys, Time now) {
  for (std::size_t i = 0; i < keys.count; ++i) at(keys.of_length[i]).begun = now;
}

void AllocationContexts::ended(const Keys& keys, const Lifetime& lifetime) {
  for (std::size_t i = 0; i < keys.count; ++i) {
    Context& context = at(keys.of_length[i]);
    context.last = lifetime;
    context.known = true;
  }
}

}  // namespace vma::inline v1
