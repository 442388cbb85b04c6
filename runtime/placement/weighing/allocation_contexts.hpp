#pragma once

#include <vma/policy.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace vma::inline v1 {

/// What is expected of an allocation.
struct Lifetime {
  double life_s = 0;
  double passes_s = 0;  ///< Passes over its bytes in a second of its life.
};

/// Programs that repeat themselves allocate in the same order each time. So what becomes of an
/// allocation is what became of the last one that followed the same requests: those that agree in
/// the longest stretch before them count. A request is known by bytes, device and tag.
///
/// Memory is bounded: of two generations of contexts the older is forgotten when the newer is full.
class AllocationContexts {
 public:
  static constexpr std::array<std::size_t, 6> lengths{1, 4, 16, 64, 256, 1024};

  /// The contexts in which one request came, the shortest first.
  struct Keys {
    std::array<std::uint64_t, lengths.size()> of_length{};
    std::size_t count = 0;
  };

  /// Adds the request to those that were seen.
  Keys see(const AllocRequest& request);
  /// From the longest context that has been seen. Where none of it has ended, the last one tells by
  /// its age how long its kind lives at least.
  std::optional<Lifetime> expected(const Keys& keys, Time now) const;
  void begun(const Keys& keys, Time now);
  void ended(const Keys& keys, const Lifetime& lifetime);

 private:
  struct Context {
    Lifetime last;
    Time begun{0};  // Of the last one.
    bool known = false;
  };
  using Contexts = std::unordered_map<std::uint64_t, Context>;

  Context& at(std::uint64_t key);
  const Context* find(std::uint64_t key) const;

  std::vector<std::uint64_t> requests_;  // A ring of the last ones.
  std::size_t next_ = 0;                 // In it.
  Contexts newer_, older_;
};

}  // namespace vma::inline v1
