#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace vma::inline v1 {

/// Which earlier request of the same device each request repeats.
///
/// Followers walk along earlier parts of the sequence as long as it repeats them: one begins where
/// the last three requests occurred before, and ends when it errs too often. The one that agreed
/// for longest decides. So after the first iteration of a program the whole previous iteration is
/// found again, although its layers look alike. A few requests may be missing or come in addition.
///
/// Bounded: `kept` requests, `followers_max` followers; each request costs a bounded time.
class RequestOrder {
 public:
  using Number = std::uint64_t;  ///< Of a request, in their order.
  static constexpr std::size_t kept = std::size_t{1} << 14;

  /// Takes in the next request: equal signatures are alike. Returns the number of the one that it
  /// repeats; none if it is not known.
  std::optional<Number> add(std::uint64_t signature);
  /// How many requests there were.
  Number count() const noexcept { return count_; }
  /// Whether the request is one of the last `kept`.
  bool has(Number number) const noexcept { return number < count_ && number + kept > count_; }

 private:
  static constexpr std::size_t followers_max = 8;
  static constexpr std::size_t skipped_max = 8;  // Missing requests at once.
  static constexpr std::size_t errors_max = 8;   // Requests in a row that came in addition.
  static constexpr std::size_t begins_with = 3;

  struct Follower {
    Number at = 0;
    std::size_t run = 0;     // For how many requests it agreed, halved with each error.
    std::size_t errors = 0;  // In a row.
  };

  std::uint64_t signature(Number number) const { return signatures_[number % kept]; }
  bool step(Follower& follower, std::uint64_t signature) const;
  void begin_follower();

  std::vector<std::uint64_t> signatures_;  // A ring.
  Number count_ = 0;
  std::vector<Follower> followers_;
  std::unordered_map<std::uint64_t, Number> last_;  // Of each sequence of `begins_with` requests.
};

}  // namespace vma::inline v1
