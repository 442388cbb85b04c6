#include "unit/lab/trace/loop_races.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <set>

namespace vma {
namespace {

class LoopRaces {
 public:
  explicit LoopRaces(std::string_view shared) : shared_(shared) {}

  void add(const ToldEvent& told) {
    const TraceEvent& event = told.event;
    switch (event.kind) {
      case TraceEventKind::task: before_[event.task]; return;
      case TraceEventKind::after: return follow(event);
      case TraceEventKind::allocation:
        objects_[event.object] = {event.task, told.tag == shared_, {}, {}};
        return;
      case TraceEventKind::access: return access(event);
      case TraceEventKind::free: return free(event);
      default: return;
    }
  }
  std::vector<std::string> found;

 private:
  struct Object {
    std::uint32_t born = 0;
    bool shared = false;
    std::set<std::uint32_t> readers, writers;
  };

  void follow(const TraceEvent& event) {
    const auto predecessor = static_cast<std::uint32_t>(event.object);
    const std::set<std::uint32_t> theirs = before_.at(predecessor);
    before_[event.task].insert(theirs.begin(), theirs.end());
    before_[event.task].insert(predecessor);
  }
  void require(std::uint32_t first, std::uint32_t then, std::uint64_t object) {
    if (first == then || first == 0 || before_[then].contains(first)) return;
    found.push_back(fmt::format("task {} may use object {} before task {}", then, object, first));
  }
  void access(const TraceEvent& event) {
    Object& object = objects_.at(event.object);
    require(object.born, event.task, event.object);
    if (!object.shared) {
      for (const std::uint32_t writer : object.writers) require(writer, event.task, event.object);
    }
    if (event.use != UseKind::read && !object.shared) {
      for (const std::uint32_t reader : object.readers) require(reader, event.task, event.object);
    }
    (event.use == UseKind::read ? object.readers : object.writers).insert(event.task);
  }
  void free(const TraceEvent& event) {
    const Object& object = objects_.at(event.object);
    for (const std::uint32_t reader : object.readers) require(reader, event.task, event.object);
    for (const std::uint32_t writer : object.writers) require(writer, event.task, event.object);
    objects_.erase(event.object);
  }

  std::string_view shared_;
  std::map<std::uint32_t, std::set<std::uint32_t>> before_;  // The ancestors of each task.
  std::map<std::uint64_t, Object> objects_;
};

}  // namespace

std::vector<std::string> loop_races(const std::vector<ToldEvent>& events, std::string_view shared) {
  LoopRaces races(shared);
  for (const ToldEvent& told : events) races.add(told);
  return races.found;
}

}  // namespace vma
