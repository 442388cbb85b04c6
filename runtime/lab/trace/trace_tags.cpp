#include "lab/trace/trace_tags.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vma {

TraceTags::TraceTags() {
  texts_.emplace_back();
  index_.emplace(texts_.front(), TagId{});
}

TagId TraceTags::intern(std::string_view text) {
  const auto found = index_.find(text);
  if (found != index_.end()) return found->second;
  const auto refuse = [](const std::string& why) {
    throw Error(ErrorKind::invalid_argument, "TraceTags", why);
  };
  if (text.size() > text_bytes_max) {
    refuse(fmt::format("a tag of {} bytes; at most {} are allowed", text.size(), text_bytes_max));
  }
  if (std::any_of(text.begin(), text.end(),
                  [](char character) { return static_cast<unsigned char>(character) < 32; })) {
    refuse("a tag with control characters");
  }
  if (texts_.size() > tags_max) refuse(fmt::format("more than {} tags", tags_max));
  const auto tag = static_cast<TagId>(texts_.size());
  texts_.emplace_back(text);
  index_.emplace(texts_.back(), tag);
  return tag;
}

}  // namespace vma
