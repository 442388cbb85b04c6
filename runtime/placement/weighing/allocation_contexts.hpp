#pragma once

#include <vma/policy.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace vma::inline v1 {

/// The expected life of an allocation.
struct Lifetime {
  double life_s = 0;
  double passes_s = 0;  ///< Passes over its bytes per second of its life.
};

/// Repetitive programs allocate in the same order each time. So an allocation is expected to behave
/// like the last one that followed the same requests: the one that agrees in the longest sequence
/// of preceding requests counts. A request is identified by bytes, device and tag.
///
/// Memory is bounded: of two generations of contexts the older is dropped when the newer is full.
class AllocationContexts {
 public:
  static constexpr std::array<std::size_t, 6> lengths{1, 4, 16, 64, 256, 1024};

  /// The contexts of one request, the shortest first.
  struct Keys {
    std::array<std::uint64_t, lengths.size()> of_length{};
    std::size_t count = 0;
  };

  /// Adds the request to the sequence of known ones.
  Keys see(const AllocRequest& request);
  /// From the longest known context. If none of its allocations has ended, the age of the last one
  /// gives a lower bound of the lifetime.
  std::optional<Lifetime> expected(const Keys& keys, Time now) const;
  void begun(const Keys& keys, Time now);
  void ended(const Keys& keys, const Lifetime& lifetime);

 private:
  struct Context {
    Lifetime last;
    Time begun{0};  // Start of the last one.
    bool known = false;
  };
  using Contexts = std::unordered_map<std::uint64_t, Context>;

  Context& at(std::uint64_t key);
  const Context* find(std::uint64_t key) const;

  std::vector<std::uint64_t> requests_;  // A ring of the last requests.
  std::size_t next_ = 0;                 // Index in it.
  Contexts newer_, older_;
};

}  // namespace vma::inline v1
