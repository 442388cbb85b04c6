#pragma once

#include "model/model_plan.hpp"
#include "model/play.hpp"
#include "model/world.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <vector>

namespace vma {

/// The model's view of one allocation.
struct UserBlock {
  void* pointer = nullptr;
  std::vector<std::uint64_t> words;
  std::vector<Place> places;  ///< One entry per slot.
  std::uint64_t chunk_bytes = 0;
  bool movable = true;
  int busy = -1;  ///< The stream on which a kernel may still use it.
  std::optional<HostView> view;

  std::uint64_t size_bytes() const { return words.size() * sizeof(std::uint64_t); }
  std::uint64_t slot_bytes(std::size_t slot) const;
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(words)); }
};

/// Does random operations on its own memory and compares each result with the model. One thread.
class User {
 public:
  User(World& world, int number);

  /// Does its share of the plan. Reports differences to the world; does not throw.
  void run();
  void add_to(PlayOutcome& outcome) const;

 private:
  /// By age, so that random choices depend on the seed and not on addresses.
  using Blocks = std::map<std::uint64_t, UserBlock>;
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
  };

  // --- user.cpp: the loop, and operations that change where memory is.
  void open();
  void step();
  void check_after_step();
  Operation draw_operation();
  void operate(Operation operation);
  bool attempt(Place at, const std::function<std::uint64_t()>& need_bytes,
               const std::function<void()>& body, bool cache_counts = false);
  void alloc();
  UserBlock& alloc_block(std::uint64_t bytes, Place at, const AllocOptions& options);
  void free(bool later);
  void forget(Blocks::iterator block, bool later);
  void migrate(bool whole);
  void migrate_slots(UserBlock& block, Range slots, Place to, bool whole);
  /// A part of a block that moves together with others.
  struct Share {
    UserBlock* block = nullptr;
    Range slots;
    Place to;
    bool may_be_full = false;  ///< The target may have no room for all shares that go there.
  };
  std::vector<Share> draw_shares();
  std::uint64_t need_bytes(const Share& share) const;
  void migrate_group();
  void note_group(const std::vector<Share>& shares, const GroupReport& group);
  void note_moves(UserBlock& block, Range slots, Place to, std::uint64_t moved_bytes);

  // --- user_memory.cpp: operations that use memory.
  void fill(UserBlock& block);
  void write(UserBlock& block, Range range);
  void check(UserBlock& block, Range range);
  void check_all();
  void check_places(const UserBlock& block);
  void use_kernel();
  void add_by_kernel(UserBlock& block, int gpu, Range words);
  void sum_by_kernel(UserBlock& block, int gpu, Range words);
  void wait_for(UserBlock& block);
  void use_view();
  void store(UserBlock& block);
  bool reaches(int gpu, const UserBlock& block, Range bytes);

  // --- user_misuse.cpp: operations that must be refused, and the cache.
  void expect_refusal(ErrorKind kind, const char* what, const std::function<void()>& body);
  void misuse();
  void misuse_block(UserBlock& block);
  void reserve();
  void trim();

  std::uint64_t draw(std::uint64_t end) { return below(random_, end); }
  Place draw_location();
  Range draw_range(std::uint64_t end);
  Blocks::iterator draw_block();
  Runtime& runtime() { return world_.runtime(); }

  World& world_;
  const int number_;
  std::mt19937_64 random_;
  PlayOutcome done_;
  int steps_ = 0;
  std::uint64_t written_ = 0;    // Makes all contents differ.
  std::vector<Stream> streams_;  // One per GPU.
  void* result_ = nullptr;       // A word for results of kernels.
  Blocks blocks_;
  std::uint64_t blocks_made_ = 0;
  std::optional<Floor::Beside> beside_;
};

}  // namespace vma
