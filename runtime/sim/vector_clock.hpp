#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

namespace vma {

/// What is known to have happened: of each stream, the number of its latest work that has.
class VectorClock {
 public:
  void join(const VectorClock& other) {
    for (const auto& [stream, work] : other.works_) {
      std::uint64_t& mine = works_[stream];
      mine = std::max(mine, work);
    }
  }
  void advance(std::uint64_t stream, std::uint64_t work) { works_[stream] = work; }
  bool knows(std::uint64_t stream, std::uint64_t work) const {
    const auto found = works_.find(stream);
    return found != works_.end() && found->second >= work;
  }

 private:
  std::map<std::uint64_t, std::uint64_t> works_;
};

}  // namespace vma
