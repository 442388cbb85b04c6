#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace vma {

/// A binary heap of flows with the smallest key on top, from which any flow can be removed. `Flow`
/// has a member `heap` that stores its position; `none` while it is in no heap. Not thread-safe.
template <typename Key, typename Flow>
class FlowHeap {
 public:
  static constexpr std::uint32_t none = UINT32_MAX;

  bool empty() const noexcept { return entries_.empty(); }
  Key top_key() const { return entries_.front().key; }
  std::uint32_t top() const { return entries_.front().flow; }

  void push(std::vector<Flow>& flows, std::uint32_t flow, Key key) {
    entries_.push_back({key, flow});
    rise(flows, entries_.size() - 1);
  }
  /// Requires: the flow is in this heap.
  void remove(std::vector<Flow>& flows, std::uint32_t flow) {
    const std::size_t hole = flows[flow].heap;
    flows[flow].heap = none;
    const Entry last = entries_.back();
    entries_.pop_back();
    if (hole == entries_.size()) return;
    entries_[hole] = last;
    sink(flows, rise(flows, hole));
  }
  /// Requires: `change` keeps the order of all keys.
  template <typename Change>
  void change_keys(Change&& change) {
    for (Entry& entry : entries_) entry.key = change(entry.key);
  }

 private:
  struct Entry {
    Key key;
    std::uint32_t flow;
  };

  /// Both move the entry at `place`, and return where it is then.
  std::size_t rise(std::vector<Flow>& flows, std::size_t place) {
    const Entry entry = entries_[place];
    for (; place > 0; place = (place - 1) / 2) {
      const Entry& above = entries_[(place - 1) / 2];
      if (above.key <= entry.key) break;
      put(flows, place, above);
    }
    return put(flows, place, entry);
  }
  std::size_t sink(std::vector<Flow>& flows, std::size_t place) {
    const Entry entry = entries_[place];
    for (std::size_t below = 2 * place + 1; below < entries_.size(); below = 2 * place + 1) {
      if (below + 1 < entries_.size() && entries_[below + 1].key < entries_[below].key) ++below;
      if (entries_[below].key >= entry.key) break;
      put(flows, place, entries_[below]);
      place = below;
    }
    return put(flows, place, entry);
  }
  std::size_t put(std::vector<Flow>& flows, std::size_t place, const Entry& entry) {
    entries_[place] = entry;
    flows[entry.flow].heap = static_cast<std::uint32_t>(place);
    return place;
  }

  std::vector<Entry> entries_;
};

}  // namespace vma
