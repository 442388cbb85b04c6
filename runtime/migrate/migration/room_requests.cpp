#include "migrate/migration/room_requests.hpp"

namespace vma {
namespace {

/// Counts a waiting move for a scope.
class Waiting {
 public:
  explicit Waiting(std::atomic<std::size_t>& count) : count_(count) { ++count_; }
  ~Waiting() { --count_; }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  std::atomic<std::size_t>& count_;
};

}  // namespace

bool RoomRequests::ask(MemoryPressure::Want& want, Location at, std::uint64_t size_bytes) {
  const Waiting waiting(waiting_);
  const std::uint64_t room =
      memory_.chunks().room_bytes(at);  // Enough, where only the driver has none.
  return want.ask(at, size_bytes > room ? size_bytes - room : size_bytes);
}

}  // namespace vma
